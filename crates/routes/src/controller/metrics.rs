//! The metrics of the controller, with upstream's names where it has them.

use std::time::Duration;

use berth_kit::events::EventMetrics;
use berth_kit::queue::QueueMetrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Name {
    name: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Sync {
    outcome: &'static str,
    trigger: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Operation {
    kind: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    call: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Owner {
    owner: &'static str,
}

/// Clones are the same metrics.
#[derive(Clone, Debug)]
pub struct RouteMetrics {
    pub(super) queues: QueueMetrics,
    pub(super) events: EventMetrics,
    syncs: Family<Sync, Counter>,
    running: Family<Name, Gauge>,
    creation_delay: Histogram,
    operations: Family<Operation, Counter>,
    calls: Family<Call, Counter>,
    routes: Family<Owner, Gauge>,
}

impl RouteMetrics {
    /// The process registers `queues` and `events` once, for all of its parts.
    pub fn register(registry: &mut Registry, queues: QueueMetrics, events: EventMetrics) -> Self {
        let metrics = Self {
            queues,
            events,
            syncs: Family::default(),
            running: Family::default(),
            creation_delay: Histogram::new(exponential_buckets(1e-3, 2.0, 20)),
            operations: Family::default(),
            calls: Family::default(),
            routes: Family::default(),
        };
        registry.register(
            "route_controller_route_sync",
            "Reconciles of all routes, by what came of them and what asked for them",
            metrics.syncs.clone(),
        );
        registry.register(
            "running_managed_controllers",
            "Controllers that run in this process",
            metrics.running.clone(),
        );
        registry.register(
            "route_controller_route_creation_delay_seconds",
            "Time from when a podCIDR of a node was seen to when its route was there",
            metrics.creation_delay.clone(),
        );
        registry.register(
            "route_controller_operations",
            "Changes of routes, by kind and result",
            metrics.operations.clone(),
        );
        registry.register(
            "route_controller_backend_calls",
            "Calls to the backend, by call and result",
            metrics.calls.clone(),
        );
        registry.register(
            "route_controller_routes",
            "Routes in the backend within the cluster CIDRs, ours and those of others",
            metrics.routes.clone(),
        );
        metrics
    }

    /// Not shown anywhere: for tests.
    pub fn unregistered() -> Self {
        let mut registry = Registry::default();
        let queues = QueueMetrics::register(&mut registry);
        let events = EventMetrics::register(&mut registry);
        Self::register(&mut registry, queues, events)
    }

    /// Adds a sample to each family: an empty family is not encoded, and the tables of `docs` are
    /// made from the encoded text.
    pub fn sample(&self) {
        drop(self.running());
        self.synced("", "");
        self.operation("", "");
        self.call("", "");
        self.routes(0, 0);
    }

    pub(super) fn running(&self) -> Running {
        let gauge = self.running.get_or_create_owned(&Name { name: "route" });
        gauge.set(1);
        Running(gauge)
    }

    pub(super) fn synced(&self, outcome: &'static str, trigger: &'static str) {
        self.syncs.get_or_create(&Sync { outcome, trigger }).inc();
    }

    pub(super) fn created_after(&self, delay: Duration) {
        self.creation_delay.observe(delay.as_secs_f64());
    }

    pub(super) fn operation(&self, kind: &'static str, result: &'static str) {
        self.operations
            .get_or_create(&Operation { kind, result })
            .inc();
    }

    pub(super) fn call(&self, call: &'static str, result: &'static str) {
        self.calls.get_or_create(&Call { call, result }).inc();
    }

    pub(super) fn routes(&self, ours: usize, foreign: usize) {
        for (owner, count) in [("ours", ours), ("foreign", foreign)] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.routes.get_or_create(&Owner { owner }).set(count);
        }
    }
}

/// Runs until it is dropped.
#[derive(Debug)]
pub struct Running(Gauge);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.set(0);
    }
}
