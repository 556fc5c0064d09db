//! Which subnets there are, and who has something in them.

use std::time::Duration;

use berth_addr::Plan;
use berth_ledger::Owner;

use super::{Answer, Utilization};

/// What came of removing a subnet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It is not known any more; or it is another cluster's to remove, and this one has nothing in it.
    Removed,
    /// Nothing has changed: so many own a part of it.
    InUse { owners: usize },
}

/// Subnets are made known before anything is handed out of them. Two sides, those of the [`super::Allocator`].
pub trait Registry: Send + Sync + std::fmt::Debug + 'static {
    /// Whether others make subnets known and change them, too: then what was said once may not hold any more.
    fn is_shared(&self) -> bool;

    fn subnets(&self) -> Answer<'_, Vec<String>>;

    /// Makes a subnet known, or changes what is known of it. Refused when it overlaps another one, or when an owned unit would fall out; then
    /// nothing has changed.
    fn set_subnet<'a>(&'a self, subnet: &'a str, plan: &'a Plan, reuse_delay: Duration) -> Answer<'a, ()>;

    /// Forgets a subnet, unless somebody owns a part of it. One that is not known is no error.
    fn remove_subnet<'a>(&'a self, subnet: &'a str) -> Answer<'a, Removal>;

    /// Those of this cluster that own something in the subnet.
    fn owners<'a>(&'a self, subnet: &'a str, cluster: &'a str) -> Answer<'a, Vec<Owner>>;

    /// All that an owner has, and how many units that was.
    fn take_back<'a>(&'a self, subnet: &'a str, owner: &'a Owner) -> Answer<'a, usize>;

    /// Returns when the subnet may not be as full any more as in `seen`.
    fn changed<'a>(&'a self, subnet: &'a str, seen: &'a Utilization) -> Answer<'a, ()>;
}
