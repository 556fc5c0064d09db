//! The kubelet of every virtual node: reports on the pods that are bound to it.
//!
//! Nothing runs on a virtual node, so a pod is Running as soon as it has an address, whoever wrote it into `status.podIPs`; until then the pod says
//! that it waits for one. A deleted pod ends at once, whatever its grace period. Pods of a Node that was deleted end too.

mod decide;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_kit::queue::Queue;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::feed::{Change, Key};
use super::nodes::Fleet;
use super::{CONCURRENCY, is_gone};
use crate::api::Clock;
use decide::{Action, bound_to, decide};

/// The watches that feed [`decide`], and the workers that carry out what it says.
pub struct Kubelet {
    pub client: Client,
    pub clock: Clock,
    pub fleet: Fleet,
    pub queue: Queue<Key>,
    pub nodes: mpsc::Receiver<Change<Node>>,
    pub pods: mpsc::Receiver<Change<Pod>>,
}

/// What is kept of a watch: names, and a pod only until it has been looked at. Thousands of pods at rest cost little.
#[derive(Debug, Default)]
struct Index {
    nodes: BTreeSet<String>,
    node_of: BTreeMap<Key, String>,
    changed: BTreeMap<Key, Arc<Pod>>,
    unsynced: u8,
}

impl Index {
    /// The pods to look at after the change.
    fn apply_node(&mut self, change: Change<Node>) -> Vec<Key> {
        match change {
            Change::Apply(node) => {
                self.nodes.insert(node.name_any());
            }
            Change::Delete(node) => {
                self.nodes.remove(&node.name);
                let pods = self.node_of.iter().filter(|(_, on)| **on == node.name);
                return pods.map(|(pod, _)| pod.clone()).collect();
            }
            Change::Synced => self.unsynced -= 1,
        }
        Vec::new()
    }

    /// The pod to look at after the change.
    fn apply_pod(&mut self, change: Change<Pod>) -> Option<Key> {
        match change {
            Change::Apply(pod) => {
                let key = Key::of(pod.as_ref());
                self.node_of.insert(key.clone(), bound_to(&pod)?.to_owned());
                self.changed.insert(key.clone(), pod);
                return Some(key);
            }
            Change::Delete(key) => {
                self.node_of.remove(&key);
                self.changed.remove(&key);
            }
            Change::Synced => self.unsynced -= 1,
        }
        None
    }
}

impl Kubelet {
    pub async fn run(mut self, token: CancellationToken) {
        let index = Mutex::new(Index {
            unsynced: 2,
            ..Index::default()
        });
        let work = async {
            // Before all nodes are known, pods would seem to have lost theirs.
            while index.lock().unsynced > 0 {
                follow(&mut self.nodes, &mut self.pods, &self.queue, &index).await;
            }
            let following = async {
                loop {
                    follow(&mut self.nodes, &mut self.pods, &self.queue, &index).await;
                }
            };
            let worker = Worker {
                client: &self.client,
                clock: self.clock,
                fleet: self.fleet,
                queue: &self.queue,
                index: &index,
            };
            let workers = join_all((0..CONCURRENCY).map(|_| worker.run()));
            tokio::join!(following, workers)
        };
        token.run_until_cancelled(work).await;
    }
}

async fn follow(
    nodes: &mut mpsc::Receiver<Change<Node>>,
    pods: &mut mpsc::Receiver<Change<Pod>>,
    queue: &Queue<Key>,
    index: &Mutex<Index>,
) {
    tokio::select! {
        biased;
        Some(change) = nodes.recv() => {
            let pods = index.lock().apply_node(change);
            pods.into_iter().for_each(|pod| queue.add(pod));
        }
        Some(change) = pods.recv() => {
            let pod = index.lock().apply_pod(change);
            pod.into_iter().for_each(|pod| queue.add(pod));
        }
        // Both watches have ended, and with them the process.
        else => std::future::pending().await,
    }
}

#[derive(Clone, Copy)]
struct Worker<'a> {
    client: &'a Client,
    clock: Clock,
    fleet: Fleet,
    queue: &'a Queue<Key>,
    index: &'a Mutex<Index>,
}

impl Worker<'_> {
    async fn run(self) {
        while let Some(pod) = self.queue.take().await {
            match self.settle(&pod).await {
                Ok(()) => pod.succeeded(),
                // The watch brings, or has brought, what became of it.
                Err(error) if is_gone(&error) => pod.succeeded(),
                Err(error) => {
                    warn!(%error, pod = %*pod, "cannot report on a pod, it is tried again");
                    pod.failed();
                }
            }
        }
    }

    async fn settle(self, key: &Key) -> kube::Result<()> {
        let api = Api::<Pod>::namespaced(self.client.clone(), &key.namespace);
        let changed = self.index.lock().changed.remove(key);
        let pod = match changed {
            Some(pod) => pod,
            // Looked at before, and not kept.
            None => match api.get_opt(&key.name).await? {
                Some(pod) => Arc::new(pod),
                None => return Ok(()),
            },
        };
        let node_exists = bound_to(&pod).is_some_and(|node| self.index.lock().nodes.contains(node));
        match decide(&pod, self.fleet, node_exists, &self.clock.time()) {
            None => Ok(()),
            Some(Action::Finish) => {
                let params = DeleteParams::default().grace_period(0).preconditions(Preconditions {
                    uid: pod.uid(),
                    resource_version: None,
                });
                api.delete(&key.name, &params).await.map(drop)
            }
            Some(Action::Report(status)) => {
                // Written over the version it was made from: a newer one is on its way here, and decides anew.
                let mut pod = Arc::unwrap_or_clone(pod);
                pod.status = Some(*status);
                api.replace_status(&key.name, &PostParams::default(), &pod)
                    .await
                    .map(drop)
            }
        }
    }
}
