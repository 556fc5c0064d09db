//! The addresses whose owners are not certain after a journal was lost: those that the node had
//! then. No pod here had those that are delivered later.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::delivered::{Container, Content};

#[derive(Clone, Debug, Default)]
pub struct Quarantine {
    stage: Stage,
    /// Addresses that living pods show and that have no known owner.
    observed: BTreeSet<IpAddr>,
}

#[derive(Clone, Debug, Default)]
enum Stage {
    #[default]
    None,
    /// Nothing was delivered yet.
    BeforeDelivery,
    /// These addresses are in quarantine.
    Addresses(BTreeSet<IpAddr>),
    /// Only the observed addresses are in quarantine.
    ObservedOnly,
}

impl Quarantine {
    pub fn before_delivery() -> Self {
        Self {
            stage: Stage::BeforeDelivery,
            observed: BTreeSet::new(),
        }
    }

    pub fn deliver(&mut self, containers: &[Container]) {
        if matches!(self.stage, Stage::BeforeDelivery) && !containers.is_empty() {
            let leases = containers.iter().filter_map(|container| match &container.content {
                Content::Leases(leases) => Some(leases),
                Content::Blocks(_) => None,
            });
            let held = leases.flatten().flat_map(|lease| &lease.held);
            self.stage = Stage::Addresses(held.map(|held| held.address).collect());
        }
    }

    /// Returns whether anything changed.
    pub fn update(&mut self, observed: BTreeSet<IpAddr>, over: bool) -> bool {
        match self.stage {
            Stage::None => return false,
            Stage::Addresses(_) if over => self.stage = Stage::ObservedOnly,
            _ if self.observed == observed => return false,
            _ => {}
        }
        self.observed = observed;
        if self.observed.is_empty() && matches!(self.stage, Stage::ObservedOnly) {
            self.stage = Stage::None;
        }
        true
    }

    pub fn covers(&self, address: IpAddr) -> bool {
        match &self.stage {
            Stage::None => false,
            Stage::BeforeDelivery => true,
            Stage::Addresses(addresses) => {
                addresses.contains(&address) || self.observed.contains(&address)
            }
            Stage::ObservedOnly => self.observed.contains(&address),
        }
    }

    /// A block's addresses are not listed one by one, so none is given out until the time is over.
    pub fn allows_blocks(&self) -> bool {
        matches!(self.stage, Stage::None | Stage::ObservedOnly)
    }

    pub fn is_active(&self) -> bool {
        !matches!(self.stage, Stage::None)
    }
}
