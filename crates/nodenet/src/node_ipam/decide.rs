//! Which podCIDRs a node has, where they lie, and what its config says of them. Pure.

use std::sync::Arc;

use berth_addr::Prefix;
use berth_api::NodeNetworkConfigStatus;
use berth_api::nnc::{AssignmentMode, ContainerStatus, NetworkContainer, OVERLAY, Progress};
use berth_ledger::{Lease, LeaseId};
use uuid::Uuid;

use crate::nnc::status::{place, set_scaler};
use crate::{node, subnet};

/// A podCIDR of a node, and the subnet that it is in.
#[derive(Clone, Debug, PartialEq)]
pub struct Placed {
    pub cidr: Prefix,
    pub subnet: Option<(String, Arc<subnet::Facts>)>,
}

/// Those that a node has, IPv4 first. One that can't be read is left out: the API server lets none in.
pub fn placed(node: &node::Facts, subnets: &[(String, Arc<subnet::Facts>)]) -> Vec<Placed> {
    let cidrs = node.pod_cidrs.iter().filter_map(|cidr| cidr.parse::<Prefix>().ok());
    let mut placed: Vec<Placed> = cidrs
        .map(|cidr| {
            let covers = |facts: &subnet::Facts| facts.cidrs.iter().any(|space| space.covers(cidr));
            Placed {
                cidr,
                subnet: subnets.iter().find(|(_, facts)| covers(facts)).cloned(),
            }
        })
        .collect();
    placed.sort_by_key(|placed| placed.cidr.family());
    placed
}

/// What is to be recorded of the podCIDRs in one subnet, and what is held there that the node does not have.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Difference {
    pub claim: Vec<Prefix>,
    pub release: Vec<LeaseId>,
}

pub fn difference(cidrs: &[Prefix], held: &[Lease]) -> Difference {
    let is_held = |cidr: &Prefix| held.iter().any(|lease| lease.units.contains(cidr));
    let is_used = |lease: &Lease| lease.units.iter().any(|unit| cidrs.contains(unit));
    Difference {
        claim: cidrs.iter().copied().filter(|cidr| !is_held(cidr)).collect(),
        release: held
            .iter()
            .filter(|lease| !is_used(lease))
            .map(|lease| lease.id)
            .collect(),
    }
}

/// The status with the podCIDRs as a container of their own, beside that for pods if there is one.
pub fn with_overlay(
    now: &NodeNetworkConfigStatus,
    container: Uuid,
    placed: &[Placed],
    node: &node::Facts,
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
        // Of a podCIDR that is in no subnet no more is known than itself.
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

    fn subnet(cidrs: &[&str]) -> Arc<subnet::Facts> {
        let spec = SubnetSpec {
            usage: Use::NodeCidrs,
            cidrs: cidrs.iter().map(ToString::to_string).collect(),
            ..SubnetSpec::default()
        };
        Arc::new(subnet::Facts::of(&Subnet::new("s", spec)))
    }

    fn node(cidrs: &[&str]) -> node::Facts {
        node::Facts {
            pod_cidrs: cidrs.iter().map(ToString::to_string).collect(),
            address: Some("192.0.2.1".to_owned()),
            ..node::Facts::default()
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
    fn what_others_set_is_claimed_and_what_was_leased_in_vain_goes_back() {
        let lease = |id, unit| Lease {
            id: Uuid::from_u128(id),
            units: vec![prefix(unit)],
        };
        let held = [lease(1, "10.0.0.0/24"), lease(2, "10.0.1.0/24")];
        let found = difference(&[prefix("10.0.1.0/24"), prefix("10.0.9.0/24")], &held);
        assert_eq!(found.claim, [prefix("10.0.9.0/24")]);
        assert_eq!(found.release, [Uuid::from_u128(1)]);
    }

    #[test]
    fn an_overlay_container_has_the_cidr_as_its_primary_and_stays_at_version_0() {
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
        let status = with_overlay(&NodeNetworkConfigStatus::default(), Uuid::nil(), &placed, &node(&[]));
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
