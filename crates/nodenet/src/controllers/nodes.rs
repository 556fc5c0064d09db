//! All that is done for one node, in order and by one at a time: its config, its podCIDR, its
//! container. The node, nnc and node-ipam controllers are parts of it; those that do not run are
//! left out.

use std::net::IpAddr;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::{NodeNetworkConfig, NodeNetworkConfigStatus, Subnet, names};
use berth_kit::api_error::{is_conflict, is_not_found};
use berth_kit::backoff::Exponential;
use berth_kit::queue::Queue;
use berth_kit::watch::{Change, Key};
use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use kube::{Api, Resource, ResourceExt};
use tokio::time::Instant;
use tracing::{Instrument, info_span};

use super::index::{Index, View};
use super::turnstile::Turnstile;
use super::{Context, Controller, Failure};
use crate::allocator::{AllocatorError, ContainerRef};
use crate::claims::Claims;
use crate::nnc::Complaint;
use crate::pods::{ObservedPod, PodIndex};
use crate::{nnc, node, subnet};

/// Writes under way at a time. Enough to keep an API server busy; more would only wait there.
pub const AT_ONCE: usize = 64;

/// How often a config that others write is read again at once, before it waits for its turn.
const ATTEMPTS: usize = 4;

/// What nodes ask for decides whether a subnet is exhausted: looked at when a burst is over.
const SETTLE: Duration = Duration::from_secs(1);

const AGAIN: Exponential = Exponential {
    base: Duration::from_millis(5),
    max: Duration::from_secs(60),
};

/// Clones are the same.
#[derive(Clone)]
pub(crate) struct Nodes {
    pub context: Context,
    pub queue: Queue<String>,
    pub turnstile: Turnstile,
    /// Held by whoever records podCIDRs for all.
    pub recording: Arc<tokio::sync::Mutex<()>>,
}

/// What came of one try at a config.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// As it is, it is as it should be.
    Settled {
        version: u64,
    },
    /// Written, and there may be more to do.
    Written(Box<NodeNetworkConfig>),
    /// It is not any more as it was read.
    Conflict,
    Gone,
}

impl Nodes {
    pub fn new(context: Context) -> Self {
        let index = Arc::clone(&context.index);
        let queue = Queue::new("nodes", AGAIN, &context.metrics.queues);
        let call = {
            let (index, queue) = (Arc::clone(&index), queue.clone());
            move |node: &str| {
                index.lock().unwrap_or_else(PoisonError::into_inner).look_at(node);
                queue.add(node.to_owned());
            }
        };
        Self {
            turnstile: Turnstile::new(context.clone(), call),
            context,
            queue,
            recording: Arc::default(),
        }
    }

    /// Never held across an await.
    pub fn index(&self) -> MutexGuard<'_, Index> {
        self.context.index()
    }

    pub fn node_changed(&self, change: Change<Node>) {
        match change {
            Change::Apply(node) => {
                let name = node.name_any();
                if self.index().apply_node(&name, node::Facts::of(&node), Instant::now()) {
                    self.queue.add(name);
                }
            }
            Change::Delete(Key { name, .. }) => {
                self.index().delete_node(&name, Instant::now());
                self.queue.add(name);
                self.context.gone.notify_one();
            }
            Change::Restarted | Change::Synced => {}
        }
    }

    pub fn config_changed(&self, change: Change<NodeNetworkConfig>) {
        match change {
            Change::Apply(config) => {
                let name = config.name_any();
                let (is_news, asks_of) = {
                    let mut index = self.index();
                    let before = index.config(&name).map(|before| before.requested);
                    let facts = nnc::Facts::of(&config);
                    let changed = before != Some(facts.requested);
                    let asks_of = facts.pods_subnet.clone().filter(|_| changed);
                    (index.apply_config(&name, facts), asks_of)
                };
                if let Some(subnet) = asks_of {
                    self.context.subnet_queue.add_after(subnet, SETTLE);
                }
                if is_news {
                    self.queue.add(name);
                }
            }
            Change::Delete(Key { name, .. }) => {
                self.index().delete_config(&name);
                self.queue.add(name);
                self.context.gone.notify_one();
            }
            Change::Restarted => self.index().unsettle(),
            Change::Synced => {}
        }
    }

    pub fn subnet_changed(&self, change: &Change<Subnet>) {
        let concerned = match change {
            Change::Apply(subnet) => {
                self.index().apply_subnet(&subnet.name_any(), subnet::Facts::of(subnet))
            }
            Change::Delete(Key { name, .. }) => {
                self.context.metrics.forget(name);
                self.index().delete_subnet(name)
            }
            Change::Restarted | Change::Synced => Vec::new(),
        };
        concerned.into_iter().for_each(|name| self.queue.add(name));
    }

    pub fn pod_changed(&self, change: Change<ObservedPod>) {
        let now = Instant::now();
        let gone = match change {
            Change::Apply(pod) => self.pods().apply(&Key::of(&*pod).to_string(), &pod, now),
            Change::Delete(pod) => self.pods().delete(&pod.to_string(), now),
            Change::Restarted | Change::Synced => Vec::new(),
        };
        for address in gone {
            if let Some(node) = self.context.claims.shown_no_more(address) {
                self.index().look_at(&node);
                self.queue.add(node);
            }
        }
    }

    pub fn pods(&self) -> MutexGuard<'_, PodIndex> {
        self.context.pods()
    }

    pub fn claims(&self) -> &Claims {
        &self.context.claims
    }

    /// Of the node that is there now. One that is gone has no UID; until it comes back, its pods'
    /// addresses are its name's.
    pub fn nc_of(&self, node: &str) -> ContainerRef {
        let uid = self.index().node(node).map(|node| node.uid.clone());
        self.context.container(node, &uid.unwrap_or_default())
    }

    /// Whether the API server shows the pod with this address at this moment.
    pub async fn pod_shows(&self, pod: &str, address: IpAddr) -> Result<bool, Failure> {
        let (namespace, name) = pod.split_once('/').unwrap_or((names::NAMESPACE, pod));
        let pods: Api<ObservedPod> = Api::namespaced(self.context.client.clone(), namespace);
        let pod = pods.get_opt(name).await?;
        Ok(pod.is_some_and(|pod| pod.addresses().contains(&address)))
    }

    pub async fn reconcile(self, name: String) -> Result<(), Failure> {
        let Some(view) = self.index().take(&name) else {
            return Ok(());
        };
        let span = info_span!("node", name);
        let done = {
            let _turn = self.context.claims.turn().await;
            self.look_at(&name, &view).instrument(span).await
        };
        if let Err(Failure::Allocator(AllocatorError::Unclaimed { subnet })) = &done {
            // It comes back when what nodes have is claimed, and that is under way.
            self.index().look_at(&name);
            self.claims().wait(subnet, &name);
            return Ok(());
        }
        if done.is_err() {
            // It comes back. Meanwhile those behind it need not wait for it.
            self.index().look_at(&name);
            self.turnstile.leave_all(&name);
        }
        done
    }

    async fn look_at(&self, name: &str, view: &View) -> Result<(), Failure> {
        if self.context.runs(Controller::NodeIpam)
            && let Some(node) = view.node.as_deref()
            && view.node_cidrs.is_none()
        {
            let recorded = self.record_unselected(name, node).await;
            self.counted(Controller::NodeIpam, recorded)?;
        }
        // Read again, not taken from the watch: what follows decides about addresses, and may be
        // far behind otherwise.
        let mut config = match view.has_config {
            true => self.context.configs().get_opt(name).await?,
            false => None,
        };
        if self.context.runs(Controller::Node) {
            let ensured = self.ensure_config(name, view, config).await;
            config = self.counted(Controller::Node, ensured)?;
        }
        let Some(config) = config else {
            self.turnstile.leave_all(name);
            return Ok(());
        };
        let parts = [Controller::Nnc, Controller::NodeIpam];
        if let Some(part) = parts.into_iter().find(|part| self.context.runs(*part)) {
            let served = self.serve(name, view, config).await;
            self.counted(part, served)?;
        }
        Ok(())
    }

    fn counted<T>(&self, controller: Controller, result: Result<T, Failure>) -> Result<T, Failure> {
        let category = result.as_ref().err().map_or("ok", Failure::category);
        self.context.metrics.reconciled(controller, category);
        result
    }

    async fn serve(
        &self,
        name: &str,
        view: &View,
        mut config: NodeNetworkConfig,
    ) -> Result<(), Failure> {
        for _ in 0..ATTEMPTS {
            match self.attempt(name, view, &config).await? {
                Outcome::Settled { version } => {
                    self.index().settle(name, version);
                    return Ok(());
                }
                Outcome::Written(written) => config = *written,
                Outcome::Conflict => match self.context.configs().get_opt(name).await? {
                    Some(read) => config = read,
                    None => return Ok(()),
                },
                Outcome::Gone => return Ok(()),
            }
        }
        let object = format!("NodeNetworkConfig {name}");
        Err(Failure::Contended { object })
    }

    async fn attempt(
        &self,
        name: &str,
        view: &View,
        config: &NodeNetworkConfig,
    ) -> Result<Outcome, Failure> {
        let settled = Outcome::Settled {
            version: nnc::version(config),
        };
        if config.metadata.deletion_timestamp.is_some() {
            return match self.context.runs(Controller::Nnc) {
                true => self.let_go(name, config).await,
                false => Ok(settled),
            };
        }
        let Some(node) = view.node.as_deref().filter(|node| nnc::is_of(config, node)) else {
            return Ok(settled);
        };
        self.leave_other_lines(name, view, node, config);
        let now = config.status.clone().unwrap_or_default();
        let mut next = nnc::Proposal::from(now.clone());
        if self.context.runs(Controller::NodeIpam) {
            next.status = self.with_pod_cidr(name, view, node, next.status).await?;
        }
        if self.context.runs(Controller::Nnc) {
            next = self.with_pods(name, view, node, config, next.status).await?;
        }
        if next.status == now {
            next.complaints.retain(|complaint| complaint.is_new);
            self.complain(name, node, config, next.complaints);
            return Ok(settled);
        }
        let Some(written) = self.write_status(name, config, next.status).await? else {
            return Ok(Outcome::Conflict);
        };
        self.complain(name, node, config, next.complaints);
        let made = now.network_containers.is_empty() && has_container(&written);
        if made && let Some(since) = view.since {
            self.context.metrics.container_written(since.elapsed());
        }
        let asks = written.spec.requested_ip_count > 0 || !written.spec.ips_not_in_use.is_empty();
        if made && asks {
            return Ok(Outcome::Written(Box::new(written)));
        }
        Ok(Outcome::Settled {
            version: nnc::version(&written),
        })
    }

    /// The subnet that the node waited for may not be the one that takes it any more.
    fn leave_other_lines(
        &self,
        name: &str,
        view: &View,
        node: &node::Facts,
        config: &NodeNetworkConfig,
    ) {
        let id = self.context.container(name, &node.uid).id();
        let homes = [nnc::home(config, view, id), view.node_cidrs.as_deref()];
        self.turnstile.leave_all_but(name, &homes);
    }

    /// Over exactly the state that was read: `None` when it is another one by now.
    async fn write_status(
        &self,
        name: &str,
        config: &NodeNetworkConfig,
        status: NodeNetworkConfigStatus,
    ) -> Result<Option<NodeNetworkConfig>, Failure> {
        let mut next = config.clone();
        next.metadata.managed_fields = None;
        next.status = Some(status);
        let params = PostParams {
            field_manager: Some(names::field_manager::NNC.to_owned()),
            ..PostParams::default()
        };
        match self.context.configs().replace_status(name, &params, &next).await {
            Err(error) if is_conflict(&error) || is_not_found(&error) => Ok(None),
            written => Ok(Some(written?)),
        }
    }

    fn complain(
        &self,
        name: &str,
        node: &node::Facts,
        config: &NodeNetworkConfig,
        complaints: Vec<Complaint>,
    ) {
        for Complaint {
            reason,
            note,
            about_node,
            ..
        } in complaints
        {
            if about_node {
                self.context.warn(
                    &node::reference(name, &node.uid),
                    reason,
                    "Allocate",
                    note.clone(),
                );
            }
            self.context.warn(&config.object_ref(&()), reason, "Allocate", note);
        }
    }
}

fn has_container(config: &NodeNetworkConfig) -> bool {
    config
        .status
        .as_ref()
        .is_some_and(|status| !status.network_containers.is_empty())
}
