//! Which podCIDRs a node has, which subnets they are in, and what its nnc says of them. Pure.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use berth_addr::Prefix;
use berth_api::NodeNetworkConfigStatus;
use berth_api::nnc::{AssignmentMode, ContainerStatus, NetworkContainer, OVERLAY, Progress};
use berth_ledger::{Lease, LeaseId};
use uuid::Uuid;

use crate::facts::{NodeFacts, SubnetFacts};
use crate::nnc::{place, set_scaler};

/// A podCIDR of a node, and the subnet that it is in.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    pub cidr: Prefix,
    pub subnet: Option<(String, Arc<SubnetFacts>)>,
}

/// The podCIDRs that a node has, IPv4 first. One that can't be parsed is left out: the API server
/// accepts none.
pub fn placed(node: &NodeFacts, subnets: &[(String, Arc<SubnetFacts>)]) -> Vec<Placed> {
    let cidrs = node.pod_cidrs.iter().filter_map(|cidr| cidr.parse::<Prefix>().ok());
    let mut placed: Vec<Placed> = cidrs
        .map(|cidr| {
            let covers = |facts: &SubnetFacts| facts.cidrs.iter().any(|space| space.covers(cidr));
            Placed {
                cidr,
                subnet: subnets.iter().find(|(_, facts)| covers(facts)).cloned(),
            }
        })
        .collect();
    placed.sort_by_key(|placed| placed.cidr.family());
    placed
}

/// More than anybody gives to one node. Without a limit, one Node with a podCIDR that is far too
/// large would fill the store.
const MAX_UNITS: usize = 1 << 16;

/// The units of a subnet that a podCIDR touches. It need not be a unit: the controller that set it
/// may divide the space in another way, and then each unit that has a part of it is taken. `None`
/// if there are too many.
pub fn touched(cidr: Prefix, subnet: &SubnetFacts) -> Option<Vec<Prefix>> {
    let length = subnet.unit_length(cidr.family());
    let spaces = subnet.cidrs.iter().filter(|space| space.overlaps(cidr));
    let common = spaces.map(|space| if space.covers(cidr) { cidr } else { *space });
    let units = common.flat_map(|common| units_around(common, length));
    let units: Vec<Prefix> = units.take(MAX_UNITS + 1).collect();
    (units.len() <= MAX_UNITS).then_some(units)
}

fn units_around(space: Prefix, length: u8) -> impl Iterator<Item = Prefix> {
    let first = Prefix::around(space.first(), length);
    let units =
        std::iter::successors(first, move |unit| Prefix::around(after(unit.last())?, length));
    units.take_while(move |unit| unit.overlaps(space))
}

fn after(address: IpAddr) -> Option<IpAddr> {
    match address {
        IpAddr::V4(address) => address
            .to_bits()
            .checked_add(1)
            .map(|next| Ipv4Addr::from_bits(next).into()),
        IpAddr::V6(address) => address
            .to_bits()
            .checked_add(1)
            .map(|next| Ipv6Addr::from_bits(next).into()),
    }
}

/// Whether the node has podCIDRs, and none of them overlaps this one.
pub fn is_elsewhere(node: &NodeFacts, cidr: Prefix) -> bool {
    let cidrs = node.pod_cidrs.iter();
    !node.pod_cidrs.is_empty()
        && cidrs
            .filter_map(|own| own.parse::<Prefix>().ok())
            .all(|own| !own.overlaps(cidr))
}

/// The leases of which the node touches no unit.
pub fn unused(touched: &BTreeSet<Prefix>, held: &[Lease]) -> Vec<LeaseId> {
    let is_used = |lease: &&Lease| lease.units.iter().any(|unit| touched.contains(unit));
    held.iter()
        .filter(|lease| !is_used(lease))
        .map(|lease| lease.id)
        .collect()
}

/// The status with the podCIDRs as a container of their own, beside that for pods if there is one.
pub fn with_overlay(
    now: &NodeNetworkConfigStatus,
    container: Uuid,
    placed: &[Placed],
    node: &NodeFacts,
) -> NodeNetworkConfigStatus {
    let id = Uuid::new_v5(&container, OVERLAY.as_bytes()).to_string();
    let mut status = now.clone();
    let had = status.network_containers.extract_if(.., |other| other.id == id).next();
    let units: Vec<Prefix> = placed.iter().map(|placed| placed.cidr).collect();
    let Some(first) = placed.first() else {
        return status;
    };
    let home = first.subnet.as_ref();
    let mut next = NetworkContainer {
        id,
        assignment_mode: AssignmentMode::Static,
        container_type: OVERLAY.to_owned(),
        subnet_name: home.map(|(name, _)| name.clone()).unwrap_or_default(),
        // A podCIDR that is in no subnet is its own address space.
        subnet_address_space: first.cidr.to_string(),
        node_ip: node.address.clone().or(had.map(|had| had.node_ip)).unwrap_or_default(),
        status: Some(ContainerStatus::Success),
        ..NetworkContainer::default()
    };
    let facts = home.map(|(_, facts)| facts.as_ref());
    // Never without a place: the address space is set.
    let _ = place(&mut next, &units, facts, Prefix::to_string);
    if status.network_containers.is_empty() {
        status.status = Some(Progress::Updated);
        set_scaler(&mut status, facts);
    }
    status.network_containers.push(next);
    status
}

#[cfg(test)]
mod tests {
    use berth_api::subnet::Use;
    use berth_api::{Subnet, SubnetSpec};

    use super::*;

    fn subnet(cidrs: &[&str]) -> Arc<SubnetFacts> {
        let spec = SubnetSpec {
            usage: Use::NodeCidrs,
            cidrs: cidrs.iter().map(ToString::to_string).collect(),
            ..SubnetSpec::default()
        };
        Arc::new(SubnetFacts::of(&Subnet::new("s", spec)))
    }

    fn node(cidrs: &[&str]) -> NodeFacts {
        NodeFacts {
            pod_cidrs: cidrs.iter().map(ToString::to_string).collect(),
            address: Some("192.0.2.1".to_owned()),
            ..NodeFacts::default()
        }
    }

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    #[test]
    fn each_pod_cidr_is_in_the_subnet_that_covers_it() {
        let subnets = [("a".to_owned(), subnet(&["10.0.0.0/16"]))];
        let found = placed(&node(&["fd00::/64", "10.0.3.0/24"]), &subnets);
        assert_eq!(found[0].cidr, prefix("10.0.3.0/24"));
        assert_eq!(found[0].subnet.as_ref().unwrap().0, "a");
        assert_eq!(found[1].subnet, None);
    }

    #[test]
    fn a_pod_cidr_touches_every_unit_that_has_a_part_of_it() {
        let facts = subnet(&["10.0.0.0/16", "255.255.255.0/24"]);
        let of = |cidr| -> Vec<String> {
            let units = touched(prefix(cidr), &facts).unwrap();
            units.iter().map(ToString::to_string).collect()
        };
        assert_eq!(of("10.0.3.0/24"), ["10.0.3.0/24"]);
        assert_eq!(of("10.0.3.128/25"), ["10.0.3.0/24"]);
        assert_eq!(of("10.0.2.0/23"), ["10.0.2.0/24", "10.0.3.0/24"]);
        assert_eq!(of("10.0.0.0/15").len(), 256);
        assert_eq!(of("255.255.255.0/24"), ["255.255.255.0/24"]);
        assert!(of("10.9.0.0/24").is_empty() && of("fd00::/64").is_empty());
        assert_eq!(touched(prefix("fd00::/40"), &subnet(&["fd00::/32"])), None);
    }

    #[test]
    fn what_was_leased_in_vain_goes_back() {
        let lease = |id, unit| Lease {
            id: Uuid::from_u128(id),
            units: vec![prefix(unit)],
        };
        let held = [lease(1, "10.0.0.0/24"), lease(2, "10.0.1.0/24")];
        let touched = [prefix("10.0.1.0/24"), prefix("10.0.9.0/24")].into();
        assert_eq!(unused(&touched, &held), [Uuid::from_u128(1)]);
    }

    #[test]
    fn halves_of_a_unit_do_not_get_in_each_others_way() {
        let half = node(&["10.0.3.0/25"]);
        assert!(is_elsewhere(&half, prefix("10.0.3.128/25")));
        assert!(!is_elsewhere(&half, prefix("10.0.3.0/24")));
        // It may be about to get all of it.
        assert!(!is_elsewhere(&node(&[]), prefix("10.0.3.128/25")));
    }

    #[test]
    fn an_overlay_container_has_the_pod_cidr_as_primary() {
        let placed = [
            Placed {
                cidr: prefix("10.0.3.0/24"),
                subnet: Some(("a".to_owned(), subnet(&["10.0.0.0/16", "fd00::/56"]))),
            },
            Placed {
                cidr: prefix("fd00::/64"),
                subnet: None,
            },
        ];
        let status =
            with_overlay(&NodeNetworkConfigStatus::default(), Uuid::nil(), &placed, &node(&[]));
        let container = &status.network_containers[0];
        assert_eq!(container.primary_ip, "10.0.3.0/24");
        assert_eq!(container.primary_ip_v6.as_deref(), Some("fd00::/64"));
        assert_eq!(container.subnet_address_space, "10.0.0.0/16");
        assert_eq!(container.subnet_address_space_v6.as_deref(), Some("fd00::/56"));
        assert_eq!(
            (container.version, container.assignment_mode),
            (0, AssignmentMode::Static)
        );
        assert_eq!(with_overlay(&status, Uuid::nil(), &placed, &node(&[])), status);
    }
}
