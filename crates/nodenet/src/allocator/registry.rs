//! Which subnets exist, and which owners have something in them.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_addr::Plan;
use berth_ledger::{Claim, Claimed, Lease, LeaseId, Owner};

use super::{Answer, SubnetCounts};

/// The result of removing a subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The subnet is no longer known; or only another cluster may remove it, and this cluster has
    /// nothing in it.
    Removed,
    /// Nothing has changed: this many owners have a part of it.
    InUse { owners: usize },
}

/// Subnets are registered before anything is handed out of them. It has the same two kinds as
/// [`super::Allocator`].
pub trait Registry: Send + Sync + std::fmt::Debug + 'static {
    /// Whether others also register and change subnets: then an earlier answer may no longer hold.
    fn is_shared(&self) -> bool;

    /// Call this before the first subnet is registered: nothing is leased to owners of this cluster
    /// until the cluster has claimed what they have. A service requires that without this call.
    fn require_claims(&self, cluster: &str);

    /// A controller begins to work on the ledger. Returns a number that is higher than any before,
    /// unless the store was restored from a copy; 0 if a service has the ledger.
    fn begin_epoch(&self) -> Answer<'_, u64>;

    /// Removes, for good, subnets that have none of these names and in which nobody owns anything.
    /// A service keeps those that others have registered.
    fn unregister_all_but<'a>(&'a self, names: &'a BTreeSet<String>) -> Answer<'a, ()>;

    fn subnets(&self) -> Answer<'_, Vec<String>>;

    /// Registers a subnet, or changes it. It is refused if it overlaps another one, or if an owned
    /// unit would no longer be in it; then nothing has changed.
    fn set_subnet<'a>(
        &'a self,
        subnet: &'a str,
        plan: &'a Plan,
        reuse_delay: Duration,
    ) -> Answer<'a, ()>;

    /// Removes a subnet, unless somebody owns a part of it. An unknown subnet is not an error.
    fn remove_subnet<'a>(&'a self, subnet: &'a str) -> Answer<'a, Removal>;

    /// The owners of this cluster that have something in the subnet.
    fn owners<'a>(&'a self, subnet: &'a str, cluster: &'a str) -> Answer<'a, Vec<Owner>>;

    /// What an owner has.
    fn held<'a>(&'a self, subnet: &'a str, owner: &'a Owner) -> Answer<'a, Vec<Lease>>;

    /// Frees these leases of an owner. Returns how many units that was.
    fn take_back<'a>(
        &'a self,
        subnet: &'a str,
        owner: &'a Owner,
        leases: Vec<LeaseId>,
    ) -> Answer<'a, usize>;

    /// Restores what owners are known to have, whatever is in the store: each claim by itself, in
    /// this order.
    fn restore<'a>(&'a self, subnet: &'a str, claims: Vec<Claim>) -> Answer<'a, Vec<Claimed>>;

    /// A number that changes whenever what this cluster's owners have may have been lost. Nothing
    /// is leased to them until [`Registry::open_gate`] is called with it.
    fn generation<'a>(&'a self, subnet: &'a str, cluster: &'a str) -> Answer<'a, u64>;

    /// All that this cluster's owners have was restored after [`Registry::generation`] returned
    /// this number. Returns `false` if the number has changed since.
    fn open_gate<'a>(
        &'a self,
        subnet: &'a str,
        cluster: &'a str,
        generation: u64,
    ) -> Answer<'a, bool>;

    /// Returns when the generation is no longer this one.
    fn lost<'a>(&'a self, subnet: &'a str, cluster: &'a str, generation: u64) -> Answer<'a, ()>;

    /// Returns when the subnet may be fuller or emptier than in `seen`.
    fn changed<'a>(&'a self, subnet: &'a str, seen: &'a SubnetCounts) -> Answer<'a, ()>;
}
