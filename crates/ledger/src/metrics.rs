//! The metrics of a ledger. Labels are subnets and families: as many as people have made.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

use berth_addr::{Counts, Family};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family as Labelled;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SubnetLabel {
    subnet: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PoolLabels {
    subnet: String,
    family: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    subnet: String,
    operation: &'static str,
}

/// The kinds of requests that the metrics tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Lease,
    Claim,
    Release,
    Read,
}

impl Operation {
    const ALL: [Self; 4] = [Self::Lease, Self::Claim, Self::Release, Self::Read];

    fn word(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Claim => "claim",
            Self::Release => "release",
            Self::Read => "read",
        }
    }
}

/// The histograms of one subnet, looked up once and not at every request.
#[derive(Clone, Debug)]
pub struct Latency {
    lease: Histogram,
    claim: Histogram,
    release: Histogram,
    read: Histogram,
}

impl Latency {
    pub fn observe(&self, operation: Operation, seconds: f64) {
        let histogram = match operation {
            Operation::Lease => &self.lease,
            Operation::Claim => &self.claim,
            Operation::Release => &self.release,
            Operation::Read => &self.read,
        };
        histogram.observe(seconds);
    }
}

/// A gauge that can hold what a /64 has.
type Amount = Gauge<f64, AtomicU64>;

/// Clones are the same metrics.
#[derive(Clone, Debug)]
pub struct LedgerMetrics {
    capacity: Labelled<PoolLabels, Amount>,
    reserved: Labelled<PoolLabels, Amount>,
    cooling_down: Labelled<PoolLabels, Amount>,
    free: Labelled<PoolLabels, Amount>,
    conflicts: Labelled<SubnetLabel, Counter>,
    latency: Labelled<RequestLabels, Histogram>,
}

impl LedgerMetrics {
    /// Metrics that are not exported, for tests.
    pub fn unregistered() -> Self {
        Self::register(&mut Registry::default())
    }

    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self {
            capacity: Labelled::default(),
            reserved: Labelled::default(),
            cooling_down: Labelled::default(),
            free: Labelled::default(),
            conflicts: Labelled::default(),
            latency: Labelled::new_with_constructor(|| {
                Histogram::new(exponential_buckets(1e-5, 4.0, 10))
            }),
        };
        let units = [
            ("capacity", "Units that may be handed out", &metrics.capacity),
            ("reserved", "Units that somebody owns", &metrics.reserved),
            (
                "cooling_down",
                "Units that were released and are not to be used again yet",
                &metrics.cooling_down,
            ),
            (
                "free",
                "Units that are neither reserved nor cooling down",
                &metrics.free,
            ),
        ];
        for (name, help, gauge) in units {
            registry.register(format!("berth_subnet_{name}"), help, gauge.clone());
        }
        registry.register(
            "berth_ledger_conflicts",
            "Writes that the store refused because another writer was there first",
            metrics.conflicts.clone(),
        );
        registry.register(
            "berth_ledger_request_seconds",
            "Time from a request to its durable answer",
            metrics.latency.clone(),
        );
        metrics
    }

    /// A sample in each family. One that is empty is not encoded: this is for the tables of `docs`,
    /// which are made from what is encoded.
    pub fn sample(&self) {
        self.conflict("");
        self.latency("");
        self.counts("", &BTreeMap::from([(Family::V4, Counts::default())]));
    }

    pub fn conflict(&self, subnet: &str) {
        self.conflicts.get_or_create(&label(subnet)).inc();
    }

    pub fn latency(&self, subnet: &str) -> Latency {
        let of = |operation| self.latency.get_or_create_owned(&request(subnet, operation));
        Latency {
            lease: of(Operation::Lease),
            claim: of(Operation::Claim),
            release: of(Operation::Release),
            read: of(Operation::Read),
        }
    }

    pub fn counts(&self, subnet: &str, counts: &BTreeMap<Family, Counts>) {
        for (family, counts) in counts {
            let labels = PoolLabels {
                subnet: subnet.to_owned(),
                family: match family {
                    Family::V4 => "ipv4",
                    Family::V6 => "ipv6",
                },
            };
            let set = |gauge: &Labelled<PoolLabels, Amount>, value: u128| {
                // A gauge is a float, as all that is scraped.
                gauge.get_or_create(&labels).set(value as f64);
            };
            set(&self.capacity, counts.capacity);
            set(&self.reserved, counts.reserved);
            set(&self.cooling_down, counts.cooling_down);
            set(&self.free, counts.free);
        }
    }

    /// The subnet is gone.
    pub fn forget(&self, subnet: &str) {
        for family in ["ipv4", "ipv6"] {
            let labels = PoolLabels {
                subnet: subnet.to_owned(),
                family,
            };
            for gauge in [&self.capacity, &self.reserved, &self.cooling_down, &self.free] {
                gauge.remove(&labels);
            }
        }
        self.conflicts.remove(&label(subnet));
        for operation in Operation::ALL {
            self.latency.remove(&request(subnet, operation));
        }
    }
}

fn label(subnet: &str) -> SubnetLabel {
    SubnetLabel {
        subnet: subnet.to_owned(),
    }
}

fn request(subnet: &str, operation: Operation) -> RequestLabels {
    RequestLabels {
        subnet: subnet.to_owned(),
        operation: operation.word(),
    }
}
