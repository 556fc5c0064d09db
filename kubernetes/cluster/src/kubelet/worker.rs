//! Runs the actions of [`decide`], and emits events when the network refuses.

use std::sync::Arc;
use std::time::Duration;

use berth_kit::clock::Clock;
use berth_kit::events::{Event, Recorder};
use berth_kit::queue::Queue;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::runtime::events::EventType;
use kube::{Api, Client, ResourceExt};
use parking_lot::Mutex;
use tracing::{debug, warn};

use super::attachment::bound_to;
use super::decide::{Action, decide};
use super::index::{Index, Turn};
use super::network::{PodNetwork, PodNetworkError, Sandbox};
use crate::nodes::Fleet;
use crate::writes::is_gone;
use berth_kit::watch::Key;

/// How long the first try may wait for an address. A pool that has to grow needs less. Later tries
/// have a back-off and don't wait, so that many pods without an address do not hold up others.
const FIRST_WAIT: Duration = Duration::from_millis(500);

#[derive(Clone, Copy)]
pub struct Worker<'a> {
    pub client: &'a Client,
    pub clock: Clock,
    pub fleet: Fleet,
    pub network: Option<&'a dyn PodNetwork>,
    pub events: &'a Recorder,
    pub queue: &'a Queue<Key>,
    pub index: &'a Mutex<Index>,
}

#[derive(Debug, thiserror::Error)]
enum SyncError {
    #[error(transparent)]
    Api(#[from] kube::Error),
    /// The pod has an event about it.
    #[error(transparent)]
    Network(#[from] PodNetworkError),
}

impl Worker<'_> {
    pub async fn run(self) {
        while let Some(pod) = self.queue.take().await {
            match self.sync(&pod).await {
                Ok(()) => pod.succeeded(),
                // The watch brings, or has brought, the pod's new state.
                Err(SyncError::Api(error)) if is_gone(&error) => pod.succeeded(),
                Err(SyncError::Api(error)) => {
                    warn!(%error, pod = %*pod, "cannot sync the pod; retrying");
                    pod.failed();
                }
                Err(SyncError::Network(error)) => {
                    debug!(
                        %error,
                        pod = %*pod,
                        "the network refused to attach or detach the pod; retrying"
                    );
                    pod.failed();
                }
            }
            let next = self.index.lock().next_waiting();
            next.into_iter().for_each(|pod| self.queue.add(pod));
        }
    }

    async fn sync(self, key: &Key) -> Result<(), SyncError> {
        let leftovers = self.detach_leftovers(key).await;
        let synced = self.sync_pod(key).await;
        synced.and(leftovers)
    }

    /// Detaches the sandboxes of deleted pods with this name. A failure does not hold up the
    /// current pod.
    async fn detach_leftovers(self, key: &Key) -> Result<(), SyncError> {
        let leftovers = self.index.lock().leftovers(key);
        let mut outcome = Ok(());
        for sandbox in leftovers {
            let detached = self.detach(key, &sandbox).await;
            outcome = outcome.and(detached);
        }
        outcome
    }

    async fn sync_pod(self, key: &Key) -> Result<(), SyncError> {
        let api = Api::<Pod>::namespaced(self.client.clone(), &key.namespace);
        let changed = self.index.lock().take_changed(key);
        let mut pod = match changed {
            Some(pod) => pod,
            // The pod was synced before, and its object was not kept.
            None => match api.get_opt(&key.name).await? {
                Some(pod) => Arc::new(pod),
                None => return Ok(()),
            },
        };
        loop {
            let uid = pod.uid().unwrap_or_default();
            let known = {
                let index = self.index.lock();
                let node_exists = bound_to(&pod).is_some_and(|node| index.has_node(node));
                index.attachment(key, &uid).map(|attachment| (attachment, node_exists))
            };
            let Some((attachment, node_exists)) = known else {
                return Ok(());
            };
            let done = match decide(&pod, self.fleet, node_exists, &attachment, &self.clock.time())
            {
                None => return Ok(()),
                Some(Action::Finish) => return self.finish(&api, &pod).await,
                Some(Action::Report(status)) => {
                    // Only for the version it was computed from. If there is a newer one, the watch
                    // brings it and it is synced again.
                    let mut pod = Arc::unwrap_or_clone(pod);
                    pod.status = Some(*status);
                    api.replace_status(&key.name, &PostParams::default(), &pod).await?;
                    return Ok(());
                }
                Some(Action::Attach) => self.attach(key, &uid).await?,
                Some(Action::Detach) => {
                    let sandbox = self.index.lock().sandbox(key, &uid);
                    match sandbox {
                        Some(sandbox) => self.detach(key, &sandbox).await.map(|()| true)?,
                        None => false,
                    }
                }
            };
            let mut index = self.index.lock();
            if !done {
                index.put_back(key, pod);
                return Ok(());
            }
            // The pod may have changed meanwhile.
            pod = index.take_changed(key).unwrap_or(pod);
        }
    }

    async fn finish(self, api: &Api<Pod>, pod: &Pod) -> Result<(), SyncError> {
        let params = DeleteParams::default().grace_period(0).preconditions(Preconditions {
            uid: pod.uid(),
            resource_version: None,
        });
        api.delete(&pod.name_any(), &params).await?;
        Ok(())
    }

    /// Returns whether the sandbox is attached. If not, the pod is queued again later.
    async fn attach(self, key: &Key, uid: &str) -> Result<bool, SyncError> {
        let Some(network) = self.network else {
            return Ok(false);
        };
        let turn = self.index.lock().begin_attaching(key, uid);
        let (sandbox, tried) = match turn {
            Turn::Now { sandbox, tried } => (sandbox, tried),
            Turn::Later | Turn::Never => return Ok(false),
        };
        let wait = if tried { Duration::ZERO } else { FIRST_WAIT };
        let outcome = match network.attach(&sandbox, wait).await {
            Ok(addresses) if addresses.is_empty() => {
                Err(PodNetworkError("the network gave it no address".to_owned()))
            }
            outcome => outcome,
        };
        self.index.lock().attached(key, uid, outcome.as_ref().ok().cloned());
        if let Err(refused) = outcome {
            self.emit_warning(
                &sandbox,
                "FailedCreatePodSandBox",
                format!("The pod's sandbox cannot be made: {refused}"),
            );
            return Err(refused.into());
        }
        Ok(true)
    }

    async fn detach(self, key: &Key, sandbox: &Sandbox) -> Result<(), SyncError> {
        let Some(network) = self.network else {
            return Ok(());
        };
        if let Err(refused) = network.detach(sandbox).await {
            self.emit_warning(
                sandbox,
                "FailedKillPod",
                format!("The pod's sandbox cannot be removed: {refused}"),
            );
            return Err(refused.into());
        }
        self.index.lock().detached(key, &sandbox.uid);
        Ok(())
    }

    fn emit_warning(self, sandbox: &Sandbox, reason: &'static str, note: String) {
        let pod = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            namespace: Some(sandbox.namespace.clone()),
            name: Some(sandbox.name.clone()),
            uid: Some(sandbox.uid.clone()),
            ..ObjectReference::default()
        };
        let event = Event {
            type_: EventType::Warning,
            reason,
            action: "Networking",
            note,
            related: None,
        };
        self.events.record(&pod, event);
    }
}
