//! What every controller is given.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use berth_api::{ClusterSubnetState, NodeNetworkConfig, ObservedNode, ObservedPod, Subnet, names};
use berth_kit::background::Background;
use berth_kit::backoff::Exponential;
use berth_kit::queue::Queue;
use berth_ledger::Clock;
use jiff::Timestamp;
use kube::{Api, Client};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::allocator::{Allocator, ContainerRef};
use crate::claims::Claims;
use crate::controller::Controller;
use crate::error::ReconcileError;
use crate::index::Index;
use crate::metrics::ControllerMetrics;
use crate::pods::PodIndex;
use crate::wait_list::WaitList;

const NODE_BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(5),
    max: Duration::from_secs(60),
};

const SUBNET_BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(10),
    max: Duration::from_secs(60),
};

/// Clones share the same state.
#[derive(Clone)]
pub struct Context {
    pub client: Client,
    pub allocator: Arc<dyn Allocator>,
    pub cluster: Arc<str>,
    pub clock: Clock,
    pub metrics: ControllerMetrics,
    pub controllers: Arc<BTreeSet<Controller>>,
    pub node_grace: Duration,
    pub background: Background,
    /// Nodes to reconcile.
    pub node_queue: Queue<String>,
    /// Subnets to reconcile.
    pub subnet_queue: Queue<String>,
    pub wait_list: WaitList,
    pub claims: Claims,
    /// Notifies reclaim that there may be something to take back.
    pub reclaim: Arc<Notify>,
    /// Held while the podCIDRs of all nodes are recorded.
    pub recording: Arc<tokio::sync::Mutex<()>>,
    index: Arc<Mutex<Index>>,
    pods: Arc<Mutex<PodIndex>>,
}

/// Settings that the controllers' process has chosen.
pub struct Settings {
    pub client: Client,
    pub allocator: Arc<dyn Allocator>,
    /// The cluster's name in the names of owners.
    pub cluster: String,
    pub clock: Clock,
    pub metrics: ControllerMetrics,
    pub controllers: BTreeSet<Controller>,
    /// How long a Node must have been gone before what it has is taken back.
    pub node_grace: Duration,
}

impl Context {
    pub fn new(settings: Settings, background: Background) -> Self {
        let Settings {
            client,
            allocator,
            cluster,
            clock,
            metrics,
            controllers,
            node_grace,
        } = settings;
        let queues = &metrics.queues;
        let node_queue = Queue::new("nodes", NODE_BACKOFF, queues);
        let subnet_queue = Queue::new("subnets", SUBNET_BACKOFF, queues);
        let index: Arc<Mutex<Index>> = Arc::default();
        let reclaim: Arc<Notify> = Arc::default();
        let wake = {
            let (index, queue) = (Arc::clone(&index), node_queue.clone());
            move |node: &str| wake(&index, &queue, node)
        };
        let wait_list = WaitList::new(
            Arc::clone(&allocator),
            metrics.clone(),
            background.clone(),
            Arc::clone(&reclaim),
            wake,
        );
        Self {
            client,
            allocator,
            cluster: cluster.into(),
            clock,
            metrics,
            controllers: Arc::new(controllers),
            node_grace,
            background,
            node_queue,
            subnet_queue,
            wait_list,
            claims: Claims::default(),
            reclaim,
            recording: Arc::default(),
            index,
            pods: Arc::new(Mutex::new(PodIndex::new(Instant::now()))),
        }
    }

    pub fn nodes(&self) -> Api<ObservedNode> {
        Api::all(self.client.clone())
    }

    pub fn nncs(&self) -> Api<NodeNetworkConfig> {
        Api::namespaced(self.client.clone(), names::NAMESPACE)
    }

    pub fn subnets(&self) -> Api<Subnet> {
        Api::all(self.client.clone())
    }

    pub fn subnet_states(&self) -> Api<ClusterSubnetState> {
        Api::namespaced(self.client.clone(), names::NAMESPACE)
    }

    pub fn all_pods(&self) -> Api<ObservedPod> {
        Api::all(self.client.clone())
    }

    /// Never held across an await.
    pub fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock()
    }

    /// Never held across an await.
    pub fn pods(&self) -> MutexGuard<'_, PodIndex> {
        self.pods.lock()
    }

    /// Queues the node, for a reason that is not in the index.
    pub fn wake(&self, node: &str) {
        wake(&self.index, &self.node_queue, node);
    }

    pub fn runs(&self, controller: Controller) -> bool {
        self.controllers.contains(&controller)
    }

    /// Counts the outcome of a reconcile.
    pub fn count_outcome<T>(
        &self,
        controller: Controller,
        result: Result<T, ReconcileError>,
    ) -> Result<T, ReconcileError> {
        let category = result.as_ref().err().map_or("ok", ReconcileError::category);
        self.metrics.reconciled(controller, category);
        result
    }

    pub fn nc(&self, node: &str, uid: &str) -> ContainerRef {
        ContainerRef {
            cluster: self.cluster.to_string(),
            node: node.to_owned(),
            uid: uid.to_owned(),
        }
    }

    /// The container of the node that exists now. A node that is gone has no UID: until it comes
    /// back, its pods' addresses belong to its name.
    pub fn nc_of(&self, node: &str) -> ContainerRef {
        let uid = self.index().node(node).map(|node| node.uid.clone());
        self.nc(node, &uid.unwrap_or_default())
    }

    /// Whether the API server shows the pod with this address at this moment: the watch may be
    /// behind.
    pub async fn pod_shows(&self, pod: &str, address: IpAddr) -> Result<bool, ReconcileError> {
        let (namespace, name) = pod.split_once('/').unwrap_or((names::NAMESPACE, pod));
        let pods: Api<ObservedPod> = Api::namespaced(self.client.clone(), namespace);
        let pod = pods.get_opt(name).await?;
        Ok(pod.is_some_and(|pod| {
            pod.needs_address() && pod.addresses().any(|shown| shown == address)
        }))
    }

    /// The ledger's time, which follows tokio's clock.
    pub fn now(&self) -> Timestamp {
        self.clock.timestamp()
    }
}

fn wake(index: &Mutex<Index>, queue: &Queue<String>, node: &str) {
    index.lock().mark_pending(node);
    queue.add(node.to_owned());
}
