//! Finds a node for every pod that has none: resources, taints, node selectors and required node
//! affinity.
//!
//! This is enough to place pods on one machine. It is not a kube-scheduler: no preemption, no
//! affinity between pods, no topology spread, no volumes, no host ports. It ignores pods that name
//! another scheduler.

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

/// How many pods are decided on before their bindings are written.
const BATCH_SIZE: usize = 256;
/// How long a pod waits for the next try after its write failed.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The loop around [`Index`]: watches in, bindings out.
pub struct Scheduler {
    pub client: Client,
    pub clock: Clock,
    pub events: Recorder,
    /// Pods whose write failed, until they are read again.
    pub failed: Queue<Key>,
    pub nodes: mpsc::Receiver<Change<Node>>,
    pub pods: mpsc::Receiver<Change<Pod>>,
    /// A limit on the pods of a node beside its resources.
    pub limit: Option<Arc<dyn PodLimit>>,
}

impl Scheduler {
    pub async fn run(mut self, token: CancellationToken) {
        let limit = self.limit.clone();
        let mut index = Index::new(limit.clone());
        let limit_changed = async || match &limit {
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
                Some(pod) = self.failed.take() => match self.refresh_pod(&pod, &mut index).await {
                    Ok(()) => pod.succeeded(),
                    Err(error) => {
                        warn!(
                            %error,
                            pod = %*pod,
                            "cannot read the pod after its write failed; retrying"
                        );
                        pod.failed();
                    }
                },
                () = limit_changed() => index.requeue_waiting(),
                () = std::future::ready(()), if work => self.schedule_batch(&mut index).await,
            }
        }
    }

    /// Decides on the pods at the head of the queue and writes the decisions. Watch events wait in
    /// the channels meanwhile, so none is applied before the answer of the write that caused it.
    async fn schedule_batch(&self, index: &mut Index) {
        let decisions: Vec<_> = std::iter::from_fn(|| index.decide()).take(BATCH_SIZE).collect();
        let mut outcomes = stream::iter(decisions)
            .map(|decision| self.apply_decision(decision))
            .buffered(CONCURRENCY);
        while let Some((pod, outcome)) = outcomes.next().await {
            let key = Key {
                namespace: pod.namespace.unwrap_or_default(),
                name: pod.name.unwrap_or_default(),
            };
            match outcome {
                Ok(()) => {}
                // The watch brings, or has brought, the pod's new state.
                Err(error) if is_gone(&error) => self.release(pod.uid.as_deref()),
                Err(error) => {
                    warn!(
                        %error,
                        pod = %key,
                        "cannot bind the pod or mark it unschedulable; retrying"
                    );
                    self.failed.add_after(key, RETRY_DELAY);
                }
            }
        }
    }

    async fn apply_decision(&self, decision: Decision) -> (ObjectReference, kube::Result<()>) {
        match decision {
            Decision::Bind { pod, node } => {
                let outcome = self.bind(&pod, &node).await;
                (pod, outcome)
            }
            Decision::Unschedulable {
                pod, reported: true, ..
            } => (pod, Ok(())),
            Decision::Unschedulable { pod, message, .. } => {
                let outcome = self.mark_unschedulable(&pod, message).await;
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

    async fn mark_unschedulable(&self, pod: &ObjectReference, message: String) -> kube::Result<()> {
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

    /// After an error it is unknown whether the write succeeded, so this reads the pod again.
    async fn refresh_pod(&self, key: &Key, index: &mut Index) -> kube::Result<()> {
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
