//! What the agent measures. Labels are words of the code: states, operations, reasons.

use std::time::Duration;

use berth_api::agent::{PoolCounts, Refusal};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Several agents can be in one process: each has its node's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfNode {
    node: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    node: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Call {
    node: String,
    operation: &'static str,
    result: &'static str,
}

/// The families, registered once in a process.
#[derive(Clone, Debug)]
pub struct AgentMetrics {
    addresses: Family<InState, Gauge>,
    calls: Family<Call, Histogram, fn() -> Histogram>,
    requested: Family<OfNode, Gauge>,
    demand: Family<OfNode, Gauge>,
    journal: Family<OfNode, Gauge>,
    reclaimed: Family<OfNode, Counter>,
    starved: Family<OfNode, Histogram, fn() -> Histogram>,
    queued: Family<OfNode, Gauge>,
    queue_age: Family<OfNode, Gauge>,
    queue_broken: Family<OfNode, Counter>,
    queue_overflowed: Family<OfNode, Gauge>,
}

/// 10 µs to 5 s.
fn latency() -> Histogram {
    Histogram::new(exponential_buckets(0.000_01, 2.0, 20))
}

/// 1 ms to 9 min.
fn starvation() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 2.0, 20))
}

impl AgentMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            addresses: Family::default(),
            calls: Family::new_with_constructor(latency),
            requested: Family::default(),
            demand: Family::default(),
            journal: Family::default(),
            reclaimed: Family::default(),
            starved: Family::new_with_constructor(starvation),
            queued: Family::default(),
            queue_age: Family::default(),
            queue_broken: Family::default(),
            queue_overflowed: Family::default(),
        };
        let all = metrics.clone();
        registry.register(
            "berth_agent_addresses",
            "Leases of the node's pool by their state",
            all.addresses,
        );
        registry.register(
            "berth_agent_call_seconds",
            "How long calls of plugins took, by what was asked and what came of it",
            all.calls,
        );
        registry.register(
            "berth_agent_requested_addresses",
            "What the node asks for",
            all.requested,
        );
        registry.register(
            "berth_agent_demand",
            "Pods that need an address, or attachments if those are more",
            all.demand,
        );
        registry.register("berth_agent_journal_bytes", "The length of the journal", all.journal);
        registry.register(
            "berth_agent_reclaimed",
            "Addresses that were taken back because their owner was gone",
            all.reclaimed,
        );
        registry.register(
            "berth_agent_starved_seconds",
            "From an ADD that was refused for want of an address until one could be served",
            all.starved,
        );
        registry.register(
            "berth_agent_queue_entries",
            "Releases that wait in the queue",
            all.queued,
        );
        registry.register(
            "berth_agent_queue_age_seconds",
            "How long the oldest of them has waited",
            all.queue_age,
        );
        registry.register(
            "berth_agent_queue_broken",
            "Entries of the release queue that could not be read and were put aside",
            all.queue_broken,
        );
        registry.register(
            "berth_agent_queue_overflowed",
            "Whether releases were left out of the queue past its limit, and some are \
             not accounted for",
            all.queue_overflowed,
        );
        metrics
    }

    /// A sample in each family. One that is empty is not encoded: this is for the tables of `docs`,
    /// which are made from what is encoded.
    pub fn sample(&self) {
        let node = self.of("");
        node.pool(PoolCounts::default());
        node.call("", &Ok(()), Duration::ZERO);
        node.scaled(0, 0);
        node.journal(0);
        node.reclaimed(0);
        node.starved(Duration::ZERO);
        node.queue(0, Duration::ZERO);
        node.queue_broken();
        node.queue_overflowed(false);
    }

    pub fn of(&self, node: &str) -> NodeMetrics {
        NodeMetrics {
            all: self.clone(),
            node: node.to_owned(),
        }
    }
}

/// The metrics of one agent.
#[derive(Clone, Debug)]
pub struct NodeMetrics {
    all: AgentMetrics,
    node: String,
}

impl NodeMetrics {
    pub fn pool(&self, counts: PoolCounts) {
        let PoolCounts {
            free,
            cooling_down,
            assigned,
            releasing,
            quarantined,
        } = counts;
        let states = [
            ("free", free),
            ("cooling_down", cooling_down),
            ("assigned", assigned),
            ("releasing", releasing),
            ("quarantined", quarantined),
        ];
        for (state, count) in states {
            let labels = InState {
                node: self.node.clone(),
                state,
            };
            self.all.addresses.get_or_create(&labels).set(signed(count));
        }
    }

    pub fn call<T>(&self, operation: &'static str, outcome: &Result<T, Refusal>, took: Duration) {
        let labels = Call {
            node: self.node.clone(),
            operation,
            result: outcome
                .as_ref()
                .map_or_else(|refusal| refusal.reason.as_str(), |_| "ok"),
        };
        self.all.calls.get_or_create(&labels).observe(took.as_secs_f64());
    }

    pub fn scaled(&self, demand: u64, requested: i64) {
        self.all.demand.get_or_create(&self.labels()).set(signed(demand));
        self.all.requested.get_or_create(&self.labels()).set(requested);
    }

    pub fn journal(&self, bytes: u64) {
        self.all.journal.get_or_create(&self.labels()).set(signed(bytes));
    }

    pub fn reclaimed(&self, count: u64) {
        self.all.reclaimed.get_or_create(&self.labels()).inc_by(count);
    }

    pub fn starved(&self, duration: Duration) {
        self.all
            .starved
            .get_or_create(&self.labels())
            .observe(duration.as_secs_f64());
    }

    pub fn queue(&self, entries: u64, oldest: Duration) {
        self.all.queued.get_or_create(&self.labels()).set(signed(entries));
        self.all
            .queue_age
            .get_or_create(&self.labels())
            .set(signed(oldest.as_secs()));
    }

    pub fn queue_broken(&self) {
        self.all.queue_broken.get_or_create(&self.labels()).inc();
    }

    pub fn queue_overflowed(&self, is_so: bool) {
        let overflowed = self.all.queue_overflowed.get_or_create(&self.labels());
        overflowed.set(i64::from(is_so));
    }

    fn labels(&self) -> OfNode {
        OfNode {
            node: self.node.clone(),
        }
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
