//! The controllers of `berth up`, over the ledger in its data directory.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use berth_kit::events::EventMetrics;
use berth_kit::metrics::Metrics;
use berth_kit::queue::QueueMetrics;
use berth_ledger::store::{MemoryStore, RedbStore, Store};
use berth_ledger::{Clock, Ledger, LedgerMetrics};
use berth_machines::metrics::MachineMetrics;
use berth_machines::{capi, ipam, provider};
use berth_nodenet::allocator::local::LocalAllocator;
use berth_nodenet::controllers::{
    self, Controller, ControllerMetrics, DEFAULT_NODE_GRACE, Options,
};
use berth_routes::controller as routes;
use futures::future::OptionFuture;
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::leases::Leases;
use crate::commands::controller::controller_metrics;
use crate::commands::routes::RouteSettings;

/// Part of the names of owners: this ledger has only one cluster.
const CLUSTER: &str = "berth-up";

/// The store of the ledger: in the data directory, or in memory.
pub fn open_store(file: Option<PathBuf>) -> Result<Arc<dyn Store>> {
    Ok(match file {
        Some(file) => Arc::new(RedbStore::open(&file).context("--data-dir")?),
        None => Arc::new(MemoryStore::default()),
    })
}

#[derive(Clone)]
pub struct Controllers {
    client: Client,
    store: Arc<dyn Store>,
    /// `None` if no Subnet is for podCIDRs. The nodes are not machines: the routes are in memory,
    /// and people see only the condition.
    routes: Option<RouteSettings>,
    queues: QueueMetrics,
    events: EventMetrics,
    ledger: LedgerMetrics,
    machines: MachineMetrics,
    controllers: ControllerMetrics,
}

impl Controllers {
    pub fn new(
        client: Client,
        store: Arc<dyn Store>,
        has_node_cidrs: bool,
        metrics: &Metrics,
    ) -> Self {
        Self {
            client,
            store,
            routes: has_node_cidrs.then(|| RouteSettings::of_up(metrics)),
            queues: metrics.share(QueueMetrics::register),
            events: metrics.share(EventMetrics::register),
            ledger: metrics.register(LedgerMetrics::register),
            machines: metrics.register(MachineMetrics::register),
            controllers: controller_metrics(metrics),
        }
    }

    /// Runs until `stop`, while the Leases are held.
    pub async fn lead(self, leases: Leases, stop: CancellationToken) -> Result<()> {
        leases.lead(stop, |stop| self.clone().run(stop)).await
    }

    async fn run(self, stop: CancellationToken) -> Result<()> {
        let mut chosen = Controller::on_by_default();
        if self.routes.is_some() {
            chosen.insert(Controller::NodeIpam);
        }
        let clock = Clock::system();
        // A new ledger reads the store again in each term.
        let ledger = Ledger::new(self.store, clock, self.ledger);
        let client = self.client;
        let machines = ipam::Options {
            client: client.clone(),
            ledger: ledger.clone(),
            cluster: CLUSTER.to_owned(),
            networks: Vec::new(),
            clock,
            queues: self.queues.clone(),
            events: self.events.clone(),
            metrics: self.machines.clone(),
            instance: None,
            seed: None,
            grace: ipam::DEFAULT_GRACE,
            stop: stop.clone(),
        };
        let claims = capi::Options {
            client: client.clone(),
            ledger: ledger.clone(),
            cluster: CLUSTER.to_owned(),
            clock,
            queues: self.queues.clone(),
            events: self.events,
            metrics: self.machines,
            instance: None,
            seed: None,
            grace: capi::DEFAULT_GRACE,
            stop: stop.clone(),
        };
        let provider = provider::run(client.clone(), self.queues, stop.clone());
        let routes = self
            .routes
            .map(|settings| routes::run(settings.options(client.clone(), None), stop.clone()));
        let routes = OptionFuture::from(routes);
        let options = Options {
            client,
            allocator: Arc::new(LocalAllocator::new(ledger)),
            cluster: CLUSTER.to_owned(),
            controllers: chosen,
            clock,
            metrics: self.controllers,
            instance: None,
            seed: None,
            node_grace: DEFAULT_NODE_GRACE,
            stop,
        };
        let all = tokio::join!(
            controllers::run(options),
            ipam::run(machines),
            capi::run(claims),
            provider,
            routes
        );
        let (nodes, machines, claims, (), _) = all;
        nodes.and(machines).and(claims).map_err(|error| anyhow!("{error}"))
    }
}
