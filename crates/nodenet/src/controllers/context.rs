//! What every controller has around it.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::{ClusterSubnetState, NodeNetworkConfig, Subnet, names};
use berth_kit::events::{Event, Recorder};
use berth_kit::queue::Queue;
use berth_kit::work::Retry;
use berth_ledger::{Clock, Ledger, LedgerError};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::runtime::events::EventType;
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::index::Index;
use super::{Controller, ControllerMetrics};
use crate::allocator::{Allocator, AllocatorError, ContainerRef};
use crate::claims::Claims;
use crate::pods::{ObservedPod, PodIndex};

#[derive(Clone)]
pub struct Context {
    pub client: Client,
    pub allocator: Arc<dyn Allocator>,
    pub ledger: Option<Ledger>,
    pub cluster: Arc<str>,
    pub clock: Clock,
    pub events: Recorder,
    pub metrics: ControllerMetrics,
    pub controllers: Arc<BTreeSet<Controller>>,
    /// Never held across an await.
    pub index: Arc<Mutex<Index>>,
    /// Subnets to be looked at.
    pub subnet_queue: Queue<String>,
    pub claims: Claims,
    /// The number of this start, by the ledger; 0 until it is known, or where a service has the
    /// ledger.
    pub epoch: Arc<AtomicU64>,
    /// Never held across an await.
    pub pods: Arc<Mutex<PodIndex>>,
    /// Tells reclaim that there may be something for it.
    pub gone: Arc<Notify>,
    /// How long a Node must have been gone before what it has is taken back.
    pub node_grace: Duration,
    pub tasks: TaskTracker,
    pub stop: CancellationToken,
}

impl Context {
    pub fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub fn configs(&self) -> Api<NodeNetworkConfig> {
        Api::namespaced(self.client.clone(), names::NAMESPACE)
    }

    pub fn subnets(&self) -> Api<Subnet> {
        Api::all(self.client.clone())
    }

    pub fn states(&self) -> Api<ClusterSubnetState> {
        Api::namespaced(self.client.clone(), names::NAMESPACE)
    }

    pub fn all_pods(&self) -> Api<ObservedPod> {
        Api::all(self.client.clone())
    }

    /// No change leaves it half made, so a panic elsewhere does not matter.
    pub fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As with the index.
    pub fn pods(&self) -> MutexGuard<'_, PodIndex> {
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn runs(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }

    pub fn container(&self, node: &str, uid: &str) -> ContainerRef {
        ContainerRef {
            cluster: self.cluster.to_string(),
            node: node.to_owned(),
            uid: uid.to_owned(),
        }
    }

    /// As the ledger has it: it goes as tokio's clock does.
    pub fn now(&self) -> Timestamp {
        let millis = i64::try_from(self.clock.now()).unwrap_or(i64::MAX);
        Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
    }

    /// For the lifetime of the controllers, in the background.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled(task).await;
        });
    }

    pub fn warn(
        &self,
        regarding: &ObjectReference,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) {
        let event = Event {
            type_: EventType::Warning,
            reason,
            action,
            note,
            related: None,
        };
        self.events.record(regarding, event);
    }
}

/// Why something is to be tried again. Nothing was half done that trying again would not find.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("API server: {0}")]
    Api(Box<kube::Error>),
    #[error(transparent)]
    Allocator(#[from] AllocatorError),
    #[error("{object}: others write it all the time")]
    Contended { object: String },
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

impl From<LedgerError> for Failure {
    fn from(error: LedgerError) -> Self {
        Self::Allocator(error.into())
    }
}

impl Failure {
    /// For labels of metrics: few, and always the same.
    pub fn category(&self) -> &'static str {
        match self {
            Self::Api(_) => "api",
            Self::Allocator(error) => error.category(),
            Self::Contended { .. } => "contended",
        }
    }
}

impl Retry for Failure {
    fn is_contention(&self) -> bool {
        matches!(self, Self::Contended { .. })
    }
}
