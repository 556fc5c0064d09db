//! What gives a node its network container: an address of its own, and as many for its pods as it
//! asks for.
//!
//! A container belongs to one node for as long as that has one UID; its id follows from both, so
//! that nobody has to remember it. Requests say how many addresses the node is to have, not how
//! many more, and carry an id of their own from which the names of new leases follow: a request
//! that is sent again, or again after a crash, finds what it made and leases nothing twice.

pub mod local;
mod pod_cidrs;
mod registry;

use std::collections::BTreeMap;

use berth_addr::{Counts, Family, Prefix};
use berth_api::{LeaseOf, lease_name};
use berth_ledger::{Kind, Lease, LeaseId, LedgerError, NotAnOwner, Owner};
use futures::future::BoxFuture;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

pub use berth_ledger::SubnetCounts;
pub use pod_cidrs::PodCidrs;
pub use registry::{Registry, Removal};

/// Whose container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContainerRef {
    pub cluster: String,
    pub node: String,
    /// The node's: another node of the same name is another node.
    pub uid: String,
}

impl ContainerRef {
    pub fn id(&self) -> Uuid {
        let Self { cluster, node, uid } = self;
        lease_name(LeaseOf::Node { cluster, node, uid })
    }

    /// Of the node's own address.
    pub fn primary(&self) -> Result<Owner, NotAnOwner> {
        Owner::new(Kind::Primary, &self.cluster, &self.node, &self.uid)
    }

    /// Of the addresses for pods.
    pub fn secondary(&self) -> Result<Owner, NotAnOwner> {
        Owner::new(Kind::Secondary, &self.cluster, &self.node, &self.uid)
    }

    /// Of a podCIDR.
    pub fn node_cidr(&self) -> Result<Owner, NotAnOwner> {
        Owner::new(Kind::NodeCidr, &self.cluster, &self.node, &self.uid)
    }

    /// Of the podCIDRs that the node is given.
    pub fn pod_cidrs_lease(&self) -> LeaseId {
        lease_name(LeaseOf::PodCidrs { nc: self.id() })
    }
}

/// What a node is to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Update {
    /// Of this request. The same request has the same id, also from a controller that has been
    /// started again.
    pub request: Uuid,
    /// Leases for pods, without those that are given back.
    pub count: usize,
    /// Leases that the node does not use any more; those that it does not have are ignored.
    #[serde(default)]
    pub give_back: Vec<LeaseId>,
}

/// What a node has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    pub id: Uuid,
    pub subnet: String,
    /// One of each family of the subnet, IPv4 first.
    pub primary: Vec<Prefix>,
    /// In the order of their addresses.
    pub secondaries: Vec<Secondary>,
    /// How many of the leases that were asked for could not be given.
    pub short: usize,
}

/// A lease for a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secondary {
    pub id: LeaseId,
    /// One of each family of the subnet, IPv4 first.
    pub units: Vec<Prefix>,
}

impl From<Lease> for Secondary {
    fn from(Lease { id, units }: Lease) -> Self {
        Self { id, units }
    }
}

/// Why a container could not be had or changed. Asking again for the same is always safe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocatorError {
    #[error(
        "subnet {subnet} has no address left for the node's own: it is given one as soon as one \
         comes free"
    )]
    SubnetFull { subnet: String },
    #[error("there is no subnet {subnet}: create it, or correct the name")]
    NoSubnet { subnet: String },
    /// What nodes have must be restored first.
    #[error("subnet {subnet} leases nothing until what nodes have in it is claimed")]
    Unclaimed { subnet: String },
    #[error(transparent)]
    NotAnOwner(#[from] NotAnOwner),
    #[error(transparent)]
    Ledger(LedgerError),
    /// Of an allocator in another process: it is not this client's cluster that may ask for it.
    #[error("allocator {address}: {why}")]
    WrongCluster { address: String, why: String },
    /// Of an allocator in another process: what is asked for can't be, whoever asks.
    #[error("allocator {address}: {why}")]
    Invalid { address: String, why: String },
    /// Of an allocator in another process: it can't be reached, or not now.
    #[error("allocator {address}: {why}")]
    Service { address: String, why: String },
    /// Of an allocator in another process.
    #[error(
        "allocator {address}: the service gives no podCIDRs: leave the controller nodeipam out, or \
         use a store instead of the service"
    )]
    NoPodCidrs { address: String },
}

impl From<LedgerError> for AllocatorError {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::NoSubnet { subnet } => Self::NoSubnet { subnet },
            LedgerError::Unclaimed { subnet } => Self::Unclaimed { subnet },
            other => Self::Ledger(other),
        }
    }
}

impl AllocatorError {
    /// For labels of metrics: few, and always the same.
    pub fn category(&self) -> &'static str {
        match self {
            Self::SubnetFull { .. } => "subnet-full",
            Self::NoSubnet { .. } => "no-subnet",
            Self::Unclaimed { .. } => "unclaimed",
            Self::NotAnOwner(_) => "bad-name",
            Self::Ledger(_) => "ledger",
            Self::WrongCluster { .. } => "wrong-cluster",
            Self::Invalid { .. } => "invalid",
            Self::Service { .. } => "service",
            Self::NoPodCidrs { .. } => "no-pod-cidrs",
        }
    }
}

type Answer<'a, T> = BoxFuture<'a, Result<T, AllocatorError>>;

/// Two sides: over a ledger in this process ([`local::LocalAllocator`]), and a service with its
/// client.
pub trait Allocator: Registry + PodCidrs {
    /// The container, made if there is none: with an address of its own and none for pods. What it
    /// has is kept.
    fn create<'a>(&'a self, subnet: &'a str, container: &'a ContainerRef) -> Answer<'a, Container>;

    /// First takes back what is given back, then leases up to the count, as far as there is any.
    /// Never takes what is not given back, even when that is more than the count.
    fn update<'a>(
        &'a self,
        subnet: &'a str,
        container: &'a ContainerRef,
        update: Update,
    ) -> Answer<'a, Container>;

    /// Takes back all that the container has. One that does not exist is no error.
    fn delete<'a>(&'a self, subnet: &'a str, container: &'a ContainerRef) -> Answer<'a, ()>;

    /// What it has, from the store and not from memory; `None` when there is none.
    fn get<'a>(
        &'a self,
        subnet: &'a str,
        container: &'a ContainerRef,
    ) -> Answer<'a, Option<Container>>;

    /// How full the subnet is at this moment.
    fn counts<'a>(&'a self, subnet: &'a str) -> Answer<'a, SubnetCounts>;

    /// Returns when there is more to lease in the subnet than at `seen`, which is
    /// [`SubnetCounts::freed`] of an earlier answer.
    fn freed<'a>(&'a self, subnet: &'a str, seen: u64) -> Answer<'a, u64>;
}

/// The family that leases end with: each lease has one unit of every family.
pub fn scarcest(families: &BTreeMap<Family, Counts>) -> Option<Counts> {
    let left =
        |counts: &&Counts| (counts.free.saturating_add(counts.cooling_down), counts.capacity);
    families.values().min_by_key(left).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_is_as_full_as_its_scarcer_family() {
        let counts = |capacity, free| Counts {
            capacity,
            reserved: capacity - free,
            cooling_down: 0,
            free,
        };
        let families =
            [(Family::V4, counts(254, 3)), (Family::V6, counts(1 << 64, 1 << 63))].into();
        assert_eq!(scarcest(&families), Some(counts(254, 3)));
    }
}
