//! How many pods a node's podCIDRs or blocks have an address for. Pure.
//!
//! A pod takes one address of each family, so a node with both has room for as many pods as the
//! smaller of the two.

use std::collections::BTreeMap;
use std::net::IpAddr;

use berth_addr::{Family, Prefix};

/// How many pods a node's `spec.podCIDRs` have room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CidrCapacity {
    Pods(u64),
    #[default]
    Missing,
    /// One of them is not a CIDR.
    Unreadable,
}

/// Counts as the seed does: every address of the CIDR but `reserved`. 192.168.1.0/29 with 2
/// reserved has 6. Saturates at `u64::MAX`.
pub fn of_pod_cidrs<'a>(cidrs: impl IntoIterator<Item = &'a str>, reserved: u64) -> CidrCapacity {
    let mut by_family = BTreeMap::new();
    for cidr in cidrs {
        let Some(prefix) = parse(cidr) else {
            return CidrCapacity::Unreadable;
        };
        let usable = size(prefix).saturating_sub(reserved);
        add(&mut by_family, prefix.family(), usable);
    }
    smallest(&by_family).map_or(CidrCapacity::Missing, CidrCapacity::Pods)
}

/// Counts as the agent counts the blocks of a static container: every address but the gateways in
/// them. The agent, too, ignores a block that cannot be read.
pub fn of_blocks<'a>(blocks: impl IntoIterator<Item = &'a str>, gateways: &[IpAddr]) -> u64 {
    let mut by_family = BTreeMap::new();
    for block in blocks.into_iter().filter_map(parse) {
        let reserved = gateways.iter().filter(|gateway| block.contains(**gateway)).count();
        let usable = size(block).saturating_sub(u64::try_from(reserved).unwrap_or(u64::MAX));
        add(&mut by_family, block.family(), usable);
    }
    smallest(&by_family).unwrap_or(0)
}

fn add(by_family: &mut BTreeMap<Family, u64>, family: Family, usable: u64) {
    let sum = by_family.entry(family).or_insert(0);
    *sum = sum.saturating_add(usable);
}

fn smallest(by_family: &BTreeMap<Family, u64>) -> Option<u64> {
    by_family.values().copied().min()
}

fn size(prefix: Prefix) -> u64 {
    u64::try_from(prefix.size()).unwrap_or(u64::MAX)
}

/// Reads `10.0.0.1/30` as 10.0.0.0/30, as kubelets and agents do. A bare address is not a block.
fn parse(text: &str) -> Option<Prefix> {
    let (address, length) = text.trim().split_once('/')?;
    Prefix::around(address.parse().ok()?, length.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pods(cidrs: &[&str], reserved: u64) -> CidrCapacity {
        of_pod_cidrs(cidrs.iter().copied(), reserved)
    }

    #[test]
    fn the_seed_counts_six_in_a_29() {
        assert_eq!(pods(&["192.168.1.0/29"], 2), CidrCapacity::Pods(6));
    }

    #[test]
    fn host_local_gives_three_fewer_than_there_are() {
        for (cidr, given) in [("10.1.0.0/29", 5), ("10.1.0.0/24", 253), ("10.1.0.0/30", 1)] {
            assert_eq!(pods(&[cidr], 3), CidrCapacity::Pods(given), "{cidr}");
        }
    }

    #[test]
    fn a_cidr_smaller_than_what_is_reserved_has_none() {
        for cidr in ["10.1.0.0/31", "10.1.0.0/32", "fd00::/127", "fd00::/128"] {
            assert_eq!(pods(&[cidr], 2), CidrCapacity::Pods(0), "{cidr}");
        }
    }

    #[test]
    fn both_families_have_room_for_the_smaller_of_the_two() {
        assert_eq!(pods(&["10.1.0.0/24", "fd00::/64"], 2), CidrCapacity::Pods(254));
        assert_eq!(pods(&["10.1.0.0/24", "fd00::/125"], 2), CidrCapacity::Pods(6));
    }

    #[test]
    fn more_than_a_u64_is_as_many_as_that() {
        assert_eq!(pods(&["fd00::/64"], 0), CidrCapacity::Pods(u64::MAX));
        assert_eq!(pods(&["::/0"], 2), CidrCapacity::Pods(u64::MAX - 2));
        assert_eq!(pods(&["fd00::/65"], 2), CidrCapacity::Pods((1 << 63) - 2));
    }

    #[test]
    fn one_that_is_no_cidr_spoils_the_node() {
        for bad in ["", "10.1.0.0", "10.1.0.0/33", "fd00::/129", "10.1.0/24", "/24"] {
            assert_eq!(pods(&["10.1.0.0/24", bad], 2), CidrCapacity::Unreadable, "{bad:?}");
        }
        assert_eq!(pods(&[], 2), CidrCapacity::Missing);
    }

    #[test]
    fn every_address_of_a_block_but_the_gateway_is_a_pods() {
        let gateway = ["10.1.0.1".parse().unwrap(), "fd00::1".parse().unwrap()];
        assert_eq!(of_blocks(["10.1.0.0/29"], &[]), 8);
        assert_eq!(of_blocks(["10.1.0.0/29"], &gateway), 7);
        assert_eq!(of_blocks(["10.1.0.0/29", "10.9.0.0/31"], &gateway), 9);
        assert_eq!(of_blocks(["10.1.0.0/29", "fd00::/126"], &gateway), 3);
        assert_eq!(of_blocks(["10.1.0.9"], &gateway), 0);
    }
}
