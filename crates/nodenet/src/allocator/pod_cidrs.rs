//! PodCIDRs: one unit of each family for a node, from a subnet with `use: node-cidrs`.

use berth_addr::Prefix;
use berth_ledger::{Refusal, Tenure};

use super::{Answer, ContainerRef};

/// Held podCIDRs are read, taken back and restored through [`super::Registry`], as for any owner.
pub trait PodCidrs: Send + Sync {
    /// If this is `false`, every other method is refused with
    /// [`super::AllocatorError::NoPodCidrs`].
    fn serves_pod_cidrs(&self) -> bool;

    /// The node's podCIDRs, leased if it has none: IPv4 first, and empty if the subnet is full.
    fn lease_pod_cidrs<'a>(
        &'a self,
        subnet: &'a str,
        container: &'a ContainerRef,
    ) -> Answer<'a, Vec<Prefix>>;

    /// Records units of a podCIDR that the node has, whichever controller gave it: all or none.
    fn claim_pod_cidr<'a>(
        &'a self,
        subnet: &'a str,
        container: &'a ContainerRef,
        cidr: Prefix,
        units: Vec<Prefix>,
    ) -> Answer<'a, Result<(), Refusal>>;

    fn owner_of<'a>(&'a self, subnet: &'a str, unit: Prefix) -> Answer<'a, Option<Tenure>>;
}
