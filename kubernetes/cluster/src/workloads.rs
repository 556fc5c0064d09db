//! Deployments and ReplicaSets: a Deployment manages its pods through ReplicaSets, as in
//! kube-controller-manager.
//!
//! One loop runs both, because a Deployment acts on the state of its ReplicaSets. It does rolling
//! updates and recreation, scaling, history, pausing, adoption. The API's garbage collection, not
//! this crate, deletes the dependents of deleted objects.

mod deployment;
mod index;
mod member;
mod owner;
mod progress;
mod replica_set;
mod rollout;
mod template;

use std::collections::BTreeMap;
use std::fmt::Debug;

use berth_kit::clock::Clock;
use berth_kit::events::Recorder;
use berth_kit::queue::Queue;
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::writes::is_gone;
use berth_kit::watch::{Change, Key};
use index::{Index, Task};

/// The watches of the three kinds.
#[derive(Debug)]
pub struct Feeds {
    pub deployments: mpsc::Receiver<Change<Deployment>>,
    pub replica_sets: mpsc::Receiver<Change<ReplicaSet>>,
    pub pods: mpsc::Receiver<Change<Pod>>,
}

/// The controllers' state, and their means to act.
pub struct Workloads {
    client: Client,
    clock: Clock,
    queue: Queue<Task>,
    deployment_events: Recorder,
    replica_set_events: Recorder,
    index: Index,
    /// Why pods of a ReplicaSet could not be created.
    failures: BTreeMap<Key, String>,
}

impl Workloads {
    pub fn new(
        client: Client,
        clock: Clock,
        queue: Queue<Task>,
        deployment_events: Recorder,
        replica_set_events: Recorder,
    ) -> Self {
        Self {
            client,
            clock,
            queue,
            deployment_events,
            replica_set_events,
            index: Index::default(),
            failures: BTreeMap::new(),
        }
    }

    pub async fn run(mut self, mut feeds: Feeds, token: CancellationToken) {
        let mut unsynced = 3;
        loop {
            let queue = self.queue.clone();
            let tasks = tokio::select! {
                biased;
                () = token.cancelled() => return,
                Some(change) = feeds.deployments.recv() => match change {
                    Change::Apply(deployment) => self.index.apply_deployment(deployment),
                    Change::Delete(key) => self.index.delete_deployment(&key),
                    Change::Synced => { unsynced -= 1; Vec::new() }
                    Change::Restarted => Vec::new(),
                },
                Some(change) = feeds.replica_sets.recv() => match change {
                    Change::Apply(set) => self.index.apply_replica_set(set),
                    Change::Delete(key) => {
                        self.failures.remove(&key);
                        self.index.delete_replica_set(&key)
                    }
                    Change::Synced => { unsynced -= 1; Vec::new() }
                    Change::Restarted => Vec::new(),
                },
                Some(change) = feeds.pods.recv() => match change {
                    Change::Apply(pod) => self.index.apply_pod(&pod),
                    Change::Delete(key) => self.index.delete_pod(&key),
                    Change::Synced => { unsynced -= 1; Vec::new() }
                    Change::Restarted => Vec::new(),
                },
                // Before all watches are synced, pods that exist would be created again.
                Some(task) = queue.take(), if unsynced == 0 => {
                    // Watch events wait in the channels meanwhile, so none is applied before the
                    // answer of the write that caused it.
                    let done = token.run_until_cancelled(self.sync(&task)).await;
                    match done {
                        Some(Ok(())) => task.succeeded(),
                        Some(Err(error)) => {
                            // A conflict: the other change is, or will be, in the channels.
                            if !is_gone(&error) {
                                warn!(%error, task = ?*task, "cannot sync the workload; retrying");
                            }
                            task.failed();
                        }
                        None => return,
                    }
                    Vec::new()
                }
            };
            self.enqueue(tasks);
        }
    }

    async fn sync(&mut self, task: &Task) -> kube::Result<()> {
        let recheck = match task {
            Task::Deployment(key) => self.sync_deployment(key).await?,
            Task::ReplicaSet(key) => self.sync_replica_set(key).await?,
        };
        if let Some(wait) = recheck {
            self.queue.add_after(task.clone(), wait);
        }
        Ok(())
    }

    fn enqueue(&self, tasks: Vec<Task>) {
        tasks.into_iter().for_each(|task| self.queue.add(task));
    }

    fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }
}

async fn merge<K>(api: &Api<K>, name: &str, patch: Value) -> kube::Result<K>
where
    K: Clone + Debug + DeserializeOwned,
{
    let params = PatchParams::default();
    api.patch(name, &params, &Patch::Merge(patch)).await
}
