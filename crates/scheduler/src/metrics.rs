//! What the scheduler counts.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    verb: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Verb {
    verb: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SubnetName {
    subnet: String,
}

#[derive(Clone, Debug)]
pub struct SchedulerMetrics {
    calls: Family<Call, Counter>,
    durations: Family<Verb, Histogram>,
    refused_nodes: Family<Reason, Counter>,
    touched: Counter,
    fit: Gauge,
    fit_by_subnet: Family<SubnetName, Gauge>,
}

impl SchedulerMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            calls: Family::default(),
            durations: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            refused_nodes: Family::default(),
            touched: Counter::default(),
            fit: Gauge::default(),
            fit_by_subnet: Family::default(),
        };
        registry.register(
            "berth_scheduler_calls",
            "Calls of kube-scheduler, by verb and result",
            metrics.calls.clone(),
        );
        registry.register(
            "berth_scheduler_call_duration_seconds",
            "How long calls took",
            metrics.durations.clone(),
        );
        registry.register(
            "berth_scheduler_refused_nodes",
            "Nodes that were filtered out, by reason",
            metrics.refused_nodes.clone(),
        );
        registry.register(
            "berth_scheduler_touched_nodes",
            "Nodes that were touched because they have room again",
            metrics.touched.clone(),
        );
        registry.register(
            "berth_pods_that_fit",
            "How many more pods can have an IP",
            metrics.fit.clone(),
        );
        registry.register(
            "berth_subnet_pods_that_fit",
            "How many more pods can have an IP on the nodes of a subnet",
            metrics.fit_by_subnet.clone(),
        );
        metrics
    }

    /// Adds a sample to each family: an empty family is not encoded, and the tables of `docs` are
    /// made from the encoded text.
    pub fn sample(&self) {
        self.called("", "", Duration::ZERO);
        self.refused("", 0);
        self.fit_of("", Some(0));
    }

    pub(crate) fn called(&self, verb: &'static str, result: &'static str, took: Duration) {
        self.calls.get_or_create_owned(&Call { verb, result }).inc();
        self.durations
            .get_or_create_owned(&Verb { verb })
            .observe(took.as_secs_f64());
    }

    pub(crate) fn refused(&self, reason: &'static str, nodes: u64) {
        self.refused_nodes.get_or_create_owned(&Reason { reason }).inc_by(nodes);
    }

    pub(crate) fn touched(&self) {
        self.touched.inc();
    }

    pub(crate) fn fit(&self, all: u64) {
        self.fit.set(clamped(all));
    }

    pub(crate) fn fit_of(&self, subnet: &str, pods: Option<u64>) {
        let name = SubnetName {
            subnet: subnet.to_owned(),
        };
        match pods {
            Some(pods) => drop(self.fit_by_subnet.get_or_create_owned(&name).set(clamped(pods))),
            None => drop(self.fit_by_subnet.remove(&name)),
        }
    }
}

const BUCKETS: [f64; 10] = [0.000_1, 0.000_25, 0.000_5, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1.0];

fn clamped(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
