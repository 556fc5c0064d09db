//! Finds a node for every pod that has none: resources, taints, node selectors and required node
//! affinity.
//!
//! Enough to place pods on one machine. It is no kube-scheduler: no preemption, no affinity between
//! pods, no topology spread, no volumes, no host ports. Pods that name another scheduler are left
//! to it.

mod affinity;
mod index;
mod limit;
mod place;
mod resources;

use std::sync::Arc;
use std::time::Duration;

use berth_kit::clock::Clock;
use berth_kit::events::{Event, Recorder};
use berth_kit::queue::Queue;
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Binding, Node, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Status};
use kube::api::{Patch, PatchParams, PostParams};
use kube::runtime::events::EventType;
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::writes::{CONCURRENCY, is_gone};
use berth_kit::watch::{Change, Key};
use index::{Decision, Index};

pub use limit::{Candidate, PodLimit};

/// How many pods are decided on before their bindings are written together.
const ROUND: usize = 256;
/// How long a pod waits when its binding could not be written.
const RETRY: Duration = Duration::from_secs(1);

/// The loop around [`Index`]: watches in, bindings out.
pub struct Scheduler {
    pub client: Client,
    pub clock: Clock,
    pub events: Recorder,
    /// Pods whose write failed, until they are read again.
    pub failed: Queue<Key>,
    pub nodes: mpsc::Receiver<Change<Node>>,
    pub pods: mpsc::Receiver<Change<Pod>>,
    /// What a node must have beyond its resources.
    pub limit: Option<Arc<dyn PodLimit>>,
}

impl Scheduler {
    pub async fn run(mut self, token: CancellationToken) {
        let limit = self.limit.clone();
        let mut index = Index::new(limit.clone());
        let room = async || match &limit {
            Some(limit) => limit.changed().await,
            None => std::future::pending().await,
        };
        let mut unsynced = 2;
        loop {
            let work = unsynced == 0 && index.has_work();
            tokio::select! {
                biased;
                () = token.cancelled() => return,
                Some(change) = self.nodes.recv() => match change {
                    Change::Apply(node) => index.apply_node(&node),
                    Change::Delete(key) => index.delete_node(&key.name),
                    Change::Synced => unsynced -= 1,
                    Change::Restarted => {}
                },
                Some(change) = self.pods.recv() => match change {
                    Change::Apply(pod) => index.apply_pod(&pod),
                    Change::Delete(key) => index.delete_pod(&key),
                    Change::Synced => unsynced -= 1,
                    Change::Restarted => {}
                },
                Some(pod) = self.failed.take() => match self.read_again(&pod, &mut index).await {
                    Ok(()) => pod.succeeded(),
                    Err(error) => {
                        warn!(%error, pod = %*pod, "cannot read a pod that could not be \
                                                    scheduled, it is tried again");
                        pod.failed();
                    }
                },
                () = room() => index.look_again(),
                () = std::future::ready(()), if work => self.round(&mut index).await,
            }
        }
    }

    /// Decides on the pods at the head of the queue and carries it out. What changes meanwhile
    /// waits in the channels, so no answer can be overtaken by the watch event that it causes.
    async fn round(&self, index: &mut Index) {
        let decisions: Vec<_> = std::iter::from_fn(|| index.decide()).take(ROUND).collect();
        let mut outcomes = stream::iter(decisions)
            .map(|decision| self.carry_out(decision))
            .buffered(CONCURRENCY);
        while let Some((pod, outcome)) = outcomes.next().await {
            let key = Key {
                namespace: pod.namespace.unwrap_or_default(),
                name: pod.name.unwrap_or_default(),
            };
            match outcome {
                Ok(()) => {}
                // The watch brings, or has brought, what became of it.
                Err(error) if is_gone(&error) => self.release(pod.uid.as_deref()),
                Err(error) => {
                    warn!(%error, pod = %key, "cannot schedule, it is tried again");
                    self.failed.add_after(key, RETRY);
                }
            }
        }
    }

    async fn carry_out(&self, decision: Decision) -> (ObjectReference, kube::Result<()>) {
        match decision {
            Decision::Bind { pod, node } => {
                let outcome = self.bind(&pod, &node).await;
                (pod, outcome)
            }
            Decision::Refuse { pod, said: true, .. } => (pod, Ok(())),
            Decision::Refuse { pod, message, .. } => {
                let outcome = self.refuse(&pod, message).await;
                (pod, outcome)
            }
        }
    }

    async fn bind(&self, pod: &ObjectReference, node: &str) -> kube::Result<()> {
        let binding = Binding {
            metadata: ObjectMeta {
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                uid: pod.uid.clone(),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                kind: Some("Node".to_owned()),
                name: Some(node.to_owned()),
                ..ObjectReference::default()
            },
        };
        let (api, name) = self.pod(pod);
        let _: Status = api
            .create_subresource("binding", name, &PostParams::default(), &binding)
            .await?;
        let event = Event {
            type_: EventType::Normal,
            reason: "Scheduled",
            action: "Binding",
            note: format!(
                "Successfully assigned {}/{name} to {node}",
                pod.namespace.as_deref().unwrap_or_default()
            ),
            related: None,
        };
        self.events.record(pod, event);
        Ok(())
    }

    async fn refuse(&self, pod: &ObjectReference, message: String) -> kube::Result<()> {
        let (api, name) = self.pod(pod);
        let condition = json!({
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
            "lastTransitionTime": self.clock.time(),
        });
        let patch = json!({"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}});
        api.patch_status(name, &PatchParams::default(), &Patch::Strategic(patch))
            .await?;
        let event = Event {
            type_: EventType::Warning,
            reason: "FailedScheduling",
            action: "Scheduling",
            note: message,
            related: None,
        };
        self.events.record(pod, event);
        Ok(())
    }

    /// After a failure nobody knows whether the write arrived: the pod as it is now tells.
    async fn read_again(&self, key: &Key, index: &mut Index) -> kube::Result<()> {
        let api = Api::<Pod>::namespaced(self.client.clone(), &key.namespace);
        let pod = api.get_opt(&key.name).await?;
        let unbound = pod
            .iter()
            .filter(|pod| pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()));
        unbound.for_each(|pod| self.release(pod.metadata.uid.as_deref()));
        index.delete_pod(key);
        pod.iter().for_each(|pod| index.apply_pod(pod));
        Ok(())
    }

    fn release(&self, uid: Option<&str>) {
        if let (Some(limit), Some(uid)) = (&self.limit, uid) {
            limit.release(uid);
        }
    }

    fn pod<'a>(&self, pod: &'a ObjectReference) -> (Api<Pod>, &'a str) {
        let namespace = pod.namespace.as_deref().unwrap_or_default();
        (
            Api::namespaced(self.client.clone(), namespace),
            pod.name.as_deref().unwrap_or_default(),
        )
    }
}
