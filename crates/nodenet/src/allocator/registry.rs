//! Which subnets there are, and who has something in them.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_addr::Plan;
use berth_ledger::{Claim, Claimed, Lease, LeaseId, Owner};

use super::{Answer, SubnetCounts};

/// What came of removing a subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It is not known any more; or it is another cluster's to remove, and this one has nothing in
    /// it.
    Removed,
    /// Nothing has changed: so many own a part of it.
    InUse { owners: usize },
}

/// Subnets are registered before anything is handed out of them. Two sides, those of the
/// [`super::Allocator`].
pub trait Registry: Send + Sync + std::fmt::Debug + 'static {
    /// Whether others register subnets and change them, too: then what was said once may not hold
    /// any more.
    fn is_shared(&self) -> bool;

    /// To be called before the first subnet is registered: nothing is leased to owners of this
    /// cluster until it has claimed what they have. A service requires it by itself.
    fn require_claims(&self, cluster: &str);

    /// A controller begins to work on the ledger. Gives a number that is higher than any before,
    /// unless the store was put back from a copy; 0 where a service has the ledger.
    fn begin_epoch(&self) -> Answer<'_, u64>;

    /// Subnets that were registered under none of these names, and in which nobody owns anything,
    /// are forgotten for good. A service keeps those that others have registered.
    fn unregister_all_but<'a>(&'a self, names: &'a BTreeSet<String>) -> Answer<'a, ()>;

    fn subnets(&self) -> Answer<'_, Vec<String>>;

    /// Registers a subnet, or changes what is known of it. Refused when it overlaps another one, or
    /// when an owned unit would fall out; then nothing has changed.
    fn set_subnet<'a>(
        &'a self,
        subnet: &'a str,
        plan: &'a Plan,
        reuse_delay: Duration,
    ) -> Answer<'a, ()>;

    /// Forgets a subnet, unless somebody owns a part of it. One that is not known is no error.
    fn remove_subnet<'a>(&'a self, subnet: &'a str) -> Answer<'a, Removal>;

    /// Those of this cluster that own something in the subnet.
    fn owners<'a>(&'a self, subnet: &'a str, cluster: &'a str) -> Answer<'a, Vec<Owner>>;

    /// What an owner has.
    fn held<'a>(&'a self, subnet: &'a str, owner: &'a Owner) -> Answer<'a, Vec<Lease>>;

    /// These leases of an owner come free, and how many units that was.
    fn take_back<'a>(
        &'a self,
        subnet: &'a str,
        owner: &'a Owner,
        leases: Vec<LeaseId>,
    ) -> Answer<'a, usize>;

    /// What owners are known to have, whatever is in the store: each by itself, in this order.
    fn restore<'a>(&'a self, subnet: &'a str, claims: Vec<Claim>) -> Answer<'a, Vec<Claimed>>;

    /// Another number whenever what this cluster's owners have may have been lost. Nothing is
    /// leased to them until [`Registry::open_gate`] is called with it.
    fn generation<'a>(&'a self, subnet: &'a str, cluster: &'a str) -> Answer<'a, u64>;

    /// All that this cluster's owners have was restored after [`Registry::generation`] gave this
    /// number. `false`: it is another one by now.
    fn open_gate<'a>(
        &'a self,
        subnet: &'a str,
        cluster: &'a str,
        generation: u64,
    ) -> Answer<'a, bool>;

    /// Returns when the generation is another one than that.
    fn lost<'a>(&'a self, subnet: &'a str, cluster: &'a str, generation: u64) -> Answer<'a, ()>;

    /// Returns when the subnet may not be as full any more as in `seen`.
    fn changed<'a>(&'a self, subnet: &'a str, seen: &'a SubnetCounts) -> Answer<'a, ()>;
}
