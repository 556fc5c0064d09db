//! Carries out what [`decide`] says, and tells the pod's events what the network refused.

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

/// How long a sandbox may wait for its first address: a pool that has to grow needs less. Later
/// tries come after their back-off anyway, and don't wait: many pods without an address must not
/// hold up those that can have one.
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
    /// Its events say so.
    #[error(transparent)]
    Network(#[from] PodNetworkError),
}

impl Worker<'_> {
    pub async fn run(self) {
        while let Some(pod) = self.queue.take().await {
            match self.settle(&pod).await {
                Ok(()) => pod.succeeded(),
                // The watch brings, or has brought, what became of it.
                Err(SyncError::Api(error)) if is_gone(&error) => pod.succeeded(),
                Err(SyncError::Api(error)) => {
                    warn!(%error, pod = %*pod, "cannot report on a pod, it is tried again");
                    pod.failed();
                }
                Err(SyncError::Network(error)) => {
                    debug!(%error, pod = %*pod, "refused by the network, it is tried again");
                    pod.failed();
                }
            }
            let next = self.index.lock().next_waiting();
            next.into_iter().for_each(|pod| self.queue.add(pod));
        }
    }

    async fn settle(self, key: &Key) -> Result<(), SyncError> {
        let left = self.detach_left(key).await;
        let settled = self.settle_pod(key).await;
        settled.and(left)
    }

    /// What pods of this name have left behind. They do not hold up the one that is there.
    async fn detach_left(self, key: &Key) -> Result<(), SyncError> {
        let left = self.index.lock().left(key);
        let mut outcome = Ok(());
        for sandbox in left {
            let detached = self.detach(key, &sandbox).await;
            outcome = outcome.and(detached);
        }
        outcome
    }

    async fn settle_pod(self, key: &Key) -> Result<(), SyncError> {
        let api = Api::<Pod>::namespaced(self.client.clone(), &key.namespace);
        let changed = self.index.lock().take_changed(key);
        let mut pod = match changed {
            Some(pod) => pod,
            // Looked at before, and not kept.
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
                    // Written over the version it was made from: a newer one is on its way here,
                    // and decides anew.
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
                index.keep(key, pod);
                return Ok(());
            }
            // It may have changed meanwhile.
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

    /// Whether it is done; if not, the pod is called again.
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
            self.tell(
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
            self.tell(
                sandbox,
                "FailedKillPod",
                format!("The pod's sandbox cannot be removed: {refused}"),
            );
            return Err(refused.into());
        }
        self.index.lock().detached(key, &sandbox.uid);
        Ok(())
    }

    fn tell(self, sandbox: &Sandbox, reason: &'static str, note: String) {
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
