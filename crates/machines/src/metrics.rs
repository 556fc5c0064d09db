//! Metrics of machine IPAM, the claims and the gate.

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// What is given an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum OwnerKind {
    Machine,
    Claim,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Label {
    owner: OwnerKind,
}

/// Metrics of machines and claims, told apart by a label.
#[derive(Clone, Debug, Default)]
pub struct MachineMetrics {
    allocations: Family<Label, Counter>,
    full: Family<Label, Counter>,
    reclaimed: Family<Label, Counter>,
    waiting: Family<Label, Gauge>,
}

impl MachineMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register(
            "berth_machine_allocations",
            "Machines and claims that were given their addresses",
            all.allocations.clone(),
        );
        registry.register(
            "berth_machine_full",
            "Times that a machine or a claim found no address left",
            all.full.clone(),
        );
        registry.register(
            "berth_machine_reclaimed",
            "Addresses taken back from machines and claims that nobody saw go",
            all.reclaimed.clone(),
        );
        registry.register(
            "berth_machine_waiting",
            "Machines and claims that wait for an address",
            all.waiting.clone(),
        );
        all
    }

    /// Adds a sample to each family: an empty family is not encoded. The tables of `docs` are made
    /// from the encoded text.
    pub fn sample(&self) {
        self.of_machines();
    }

    pub(crate) fn of_machines(&self) -> OwnerMetrics {
        self.of(OwnerKind::Machine)
    }

    pub(crate) fn of_claims(&self) -> OwnerMetrics {
        self.of(OwnerKind::Claim)
    }

    fn of(&self, owner: OwnerKind) -> OwnerMetrics {
        let label = Label { owner };
        OwnerMetrics {
            allocations: self.allocations.get_or_create(&label).clone(),
            full: self.full.get_or_create(&label).clone(),
            reclaimed: self.reclaimed.get_or_create(&label).clone(),
            waiting: self.waiting.get_or_create(&label).clone(),
        }
    }
}

/// The metrics of machines, or of claims.
#[derive(Clone, Debug)]
pub(crate) struct OwnerMetrics {
    pub allocations: Counter,
    pub full: Counter,
    pub reclaimed: Counter,
    pub waiting: Gauge,
}

/// The outcome of a call of the webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
pub enum Review {
    Gated,
    Allowed,
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    outcome: Review,
}

#[derive(Clone, Debug, Default)]
pub struct GateMetrics {
    reviews: Family<Outcome, Counter>,
}

impl GateMetrics {
    pub fn register(registry: &mut Registry) -> Self {
        let all = Self::default();
        registry.register(
            "berth_machine_gate_reviews",
            "Calls of the gate's webhook, by what came of them",
            all.reviews.clone(),
        );
        all
    }

    pub fn count(&self, outcome: Review) {
        self.reviews.get_or_create(&Outcome { outcome }).inc();
    }
}
