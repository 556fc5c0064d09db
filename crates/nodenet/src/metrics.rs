//! The controllers' metrics. Labels are fixed words, and the names of subnets: as many as people
//! have created.

use std::time::Duration;

use berth_kit::events::EventMetrics;
use berth_kit::queue::QueueMetrics;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::controller::Controller;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reconcile {
    controller: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SubnetLabel {
    subnet: String,
}

/// Clones share the same metrics.
#[derive(Clone, Debug)]
pub struct ControllerMetrics {
    pub(crate) queues: QueueMetrics,
    pub(crate) events: EventMetrics,
    reconciles: Family<Reconcile, Counter>,
    waiters: Family<SubnetLabel, Gauge>,
    container: Histogram,
    claimed: Family<SubnetLabel, Counter>,
    conflicts: Family<SubnetLabel, Gauge>,
}

impl ControllerMetrics {
    /// `queues` and `events` belong to the process, which registers them once for all its parts.
    pub fn register(registry: &mut Registry, queues: QueueMetrics, events: EventMetrics) -> Self {
        let metrics = Self {
            queues,
            events,
            reconciles: Family::default(),
            waiters: Family::default(),
            container: Histogram::new(exponential_buckets(1e-3, 4.0, 10)),
            claimed: Family::default(),
            conflicts: Family::default(),
        };
        registry.register(
            "berth_addresses_claimed",
            "Addresses that nodes had and the ledger did not know, claimed back",
            metrics.claimed.clone(),
        );
        registry.register(
            "berth_address_conflicts",
            "Addresses that two nodes have",
            metrics.conflicts.clone(),
        );
        registry.register(
            "berth_reconciles",
            "What came of looking at an object, by controller",
            metrics.reconciles.clone(),
        );
        registry.register(
            "berth_subnet_waiters",
            "Nodes that wait for an address of the subnet",
            metrics.waiters.clone(),
        );
        registry.register(
            "berth_node_container_seconds",
            "Time from when a Node was seen to when its network container was written",
            metrics.container.clone(),
        );
        metrics
    }

    /// Registered nowhere: for tests.
    pub fn unregistered() -> Self {
        let mut registry = Registry::default();
        let queues = QueueMetrics::register(&mut registry);
        let events = EventMetrics::register(&mut registry);
        Self::register(&mut registry, queues, events)
    }

    /// Adds a sample to each family: an empty family is not encoded. The tables of `docs` are made
    /// from the encoded text.
    pub fn sample(&self) {
        self.reconciled(Controller::Nnc, "");
        self.waiters("", 0);
        self.claimed("", 0);
        self.conflicts("", 0);
    }

    pub(crate) fn reconciled(&self, controller: Controller, result: &'static str) {
        let controller = controller.name();
        self.reconciles.get_or_create(&Reconcile { controller, result }).inc();
    }

    pub(crate) fn waiters(&self, subnet: &str, count: usize) {
        let subnet = subnet.to_owned();
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.waiters.get_or_create(&SubnetLabel { subnet }).set(count);
    }

    /// The subnet is gone.
    pub(crate) fn delete_subnet(&self, subnet: &str) {
        let subnet = subnet.to_owned();
        let label = SubnetLabel { subnet };
        self.waiters.remove(&label);
        self.conflicts.remove(&label);
    }

    pub(crate) fn claimed(&self, subnet: &str, count: usize) {
        let subnet = subnet.to_owned();
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.claimed.get_or_create(&SubnetLabel { subnet }).inc_by(count);
    }

    pub(crate) fn conflicts(&self, subnet: &str, count: usize) {
        let subnet = subnet.to_owned();
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.conflicts.get_or_create(&SubnetLabel { subnet }).set(count);
    }

    pub(crate) fn container_written(&self, after: Duration) {
        self.container.observe(after.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::*;

    #[test]
    fn what_is_shown_is_named_by_controller_result_and_subnet() {
        let mut registry = Registry::default();
        let (queues, events) = (
            QueueMetrics::register(&mut registry),
            EventMetrics::register(&mut registry),
        );
        let metrics = ControllerMetrics::register(&mut registry, queues, events);
        metrics.reconciled(Controller::Nnc, "subnet-full");
        metrics.waiters("pods", 2);
        metrics.waiters("gone", 1);
        metrics.delete_subnet("gone");
        metrics.container_written(Duration::from_millis(3));
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            r#"berth_reconciles_total{controller="nnc",result="subnet-full"} 1"#,
            r#"berth_subnet_waiters{subnet="pods"} 2"#,
            "berth_node_container_seconds_count 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(!text.contains("gone"), "{text}");
    }
}
