//! Gives a node its network container: an address of its own, and as many addresses for its pods as
//! it requests.
//!
//! A container belongs to one node as long as the node keeps its UID; its id is derived from both,
//! so it is stored nowhere. A request says how many addresses the node is to have, not how many
//! more. It carries its own id, from which the names of new leases are derived: a request that is
//! sent again, also after a crash, finds the leases that it made and leases nothing twice.

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

/// Identifies a container by its node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ContainerRef {
    pub cluster: String,
    pub node: String,
    /// The node's UID: a node that is created again under the same name is another node.
    pub uid: String,
}

impl ContainerRef {
    pub fn id(&self) -> Uuid {
        let Self { cluster, node, uid } = self;
        lease_name(LeaseOf::Node { cluster, node, uid })
    }

    /// The owner of the node's own address.
    pub fn primary(&self) -> Result<Owner, NotAnOwner> {
        Owner::new(Kind::Primary, &self.cluster, &self.node, &self.uid)
    }

    /// The owner of the addresses for pods.
    pub fn secondary(&self) -> Result<Owner, NotAnOwner> {
        Owner::new(Kind::Secondary, &self.cluster, &self.node, &self.uid)
    }

    /// The owner of a podCIDR.
    pub fn node_cidr(&self) -> Result<Owner, NotAnOwner> {
        Owner::new(Kind::NodeCidr, &self.cluster, &self.node, &self.uid)
    }

    /// The id of the lease of the podCIDRs that the node is given.
    pub fn pod_cidrs_lease(&self) -> LeaseId {
        lease_name(LeaseOf::PodCidrs { nc: self.id() })
    }
}

/// What a node is to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Update {
    /// The id of this request. The same request has the same id, also after a restart of the
    /// controller.
    pub request: Uuid,
    /// How many leases for pods the node is to have, without those that are given back.
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

/// Why a container could not be read or changed. It is always safe to repeat a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AllocatorError {
    #[error(
        "subnet {subnet} has no address left for the node's own: it is given one as soon as one \
         comes free"
    )]
    SubnetFull { subnet: String },
    #[error("there is no subnet {subnet}: create it, or correct the name")]
    NoSubnet { subnet: String },
    /// What nodes already have must be restored first.
    #[error("subnet {subnet} leases nothing until what nodes have in it is claimed")]
    Unclaimed { subnet: String },
    #[error(transparent)]
    NotAnOwner(#[from] NotAnOwner),
    #[error(transparent)]
    Ledger(LedgerError),
    /// From an allocator in another process: this client's cluster may not ask for this.
    #[error("allocator {address}: {why}")]
    WrongCluster { address: String, why: String },
    /// From an allocator in another process: the request is invalid, whichever cluster sends it.
    #[error("allocator {address}: {why}")]
    Invalid { address: String, why: String },
    /// From an allocator in another process: it can't be reached, or can't answer now.
    #[error("allocator {address}: {why}")]
    Service { address: String, why: String },
    /// From an allocator in another process.
    #[error(
        "allocator {address}: the service allocates no podCIDRs: leave the controller nodeipam \
         out, or use a store instead of the service"
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
    /// A label for metrics: one of a small, fixed set.
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

/// There are two kinds: [`local::LocalAllocator`] over a ledger in this process, and a service with
/// its client.
pub trait Allocator: Registry + PodCidrs {
    /// Returns the container. A new one is created with an address of its own and none for pods; an
    /// existing one keeps what it has.
    fn create<'a>(&'a self, subnet: &'a str, container: &'a ContainerRef) -> Answer<'a, Container>;

    /// First takes back what is given back, then leases up to the count, as far as there are
    /// addresses. It never takes a lease that is not given back, even if the node has more than the
    /// count.
    fn update<'a>(
        &'a self,
        subnet: &'a str,
        container: &'a ContainerRef,
        update: Update,
    ) -> Answer<'a, Container>;

    /// Takes back all that the container has. A container that does not exist is not an error.
    fn delete<'a>(&'a self, subnet: &'a str, container: &'a ContainerRef) -> Answer<'a, ()>;

    /// What the container has, from the store and not from memory; `None` if there is no container.
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

/// The family that runs out first: each lease has one unit of every family.
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
