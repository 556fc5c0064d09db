//! What is written into the status of a NodeNetworkConfig. Pure.

use std::collections::BTreeSet;

use berth_addr::Prefix;
use berth_api::NodeNetworkConfigStatus;
use berth_api::nnc::{
    AssignmentMode, ContainerStatus, IpAssignment, NetworkContainer, OVERLAY, Progress, VNET,
};

use super::assignments::assignments;
use crate::allocator::Container;
use crate::{node, subnet};

/// Our container for pods in a status, if it is there.
pub fn container_in<'a>(
    status: Option<&'a NodeNetworkConfigStatus>,
    id: &str,
) -> Option<&'a NetworkContainer> {
    let containers = status.into_iter().flat_map(|status| &status.network_containers);
    containers.into_iter().find(|container| container.id == id)
}

/// The status with the container as the allocator has it. `None` when no CIDR of the subnet is
/// known that holds the container's own address: without it an agent can't use the container.
///
/// The version goes up when the addresses for pods change, and only then; `first_version` is that
/// of a container that is new here, whatever it has. A subnet that is gone leaves what it said.
pub fn with_container(
    now: &NodeNetworkConfigStatus,
    container: &Container,
    subnet: Option<&subnet::Facts>,
    node: &node::Facts,
    first_version: i64,
) -> Option<NodeNetworkConfigStatus> {
    let id = container.id.to_string();
    let had = container_in(Some(now), &id);
    let mut next = had.cloned().unwrap_or(NetworkContainer {
        version: first_version,
        ..NetworkContainer::default()
    });
    next.id = id;
    next.assignment_mode = AssignmentMode::Dynamic;
    next.container_type = VNET.to_owned();
    next.subnet_name.clone_from(&container.subnet);
    place(&mut next, &container.primary, subnet, |unit| unit.first().to_string())?;
    if let Some(address) = &node.address {
        next.node_ip.clone_from(address);
    }
    let listed = assignments(&container.secondaries);
    if !same(&listed, &next.ip_assignments) {
        next.ip_assignments = listed;
        next.version += i64::from(had.is_some());
    }
    let full = container.short > 0;
    next.status = Some(if full {
        ContainerStatus::SubnetFull
    } else {
        ContainerStatus::Success
    });

    let mut status = now.clone();
    status.assigned_ip_count = i64::try_from(container.secondaries.len()).unwrap_or(i64::MAX);
    status.status = Some(if full { Progress::Error } else { Progress::Updated });
    set_scaler(&mut status, subnet);
    // Other containers for pods are of a node that is no more, under this name: their addresses are
    // not this node's.
    status
        .network_containers
        .retain(|other| other.container_type == OVERLAY);
    status.network_containers.insert(0, next);
    Some(status)
}

/// There is no address for a container.
pub fn without_container(
    now: &NodeNetworkConfigStatus,
    subnet: Option<&subnet::Facts>,
) -> NodeNetworkConfigStatus {
    let mut status = now.clone();
    status
        .network_containers
        .retain(|other| other.container_type == OVERLAY);
    status.assigned_ip_count = 0;
    status.status = Some(Progress::Error);
    set_scaler(&mut status, subnet);
    status
}

/// The subnet of the container is gone: it keeps what it has.
pub fn without_subnet(now: &NodeNetworkConfigStatus, id: &str) -> NodeNetworkConfigStatus {
    let mut status = now.clone();
    status.status = Some(Progress::Error);
    for container in status
        .network_containers
        .iter_mut()
        .filter(|container| container.id == id)
    {
        container.status = Some(ContainerStatus::Failed);
    }
    status
}

/// Where the container's own units lie. `written` is how such a unit is written.
pub fn place(
    container: &mut NetworkContainer,
    units: &[Prefix],
    subnet: Option<&subnet::Facts>,
    written: impl Fn(&Prefix) -> String,
) -> Option<()> {
    let mut units = units.iter();
    let first = units.next()?;
    let second = units.next();
    container.primary_ip = written(first);
    container.primary_ip_v6 = second.map(written);
    let Some(subnet) = subnet else {
        return Some(());
    };
    let Some(cidr) = subnet.cidr_around(first.first()) else {
        // The spec is not what the ledger follows: what was written when it was, holds.
        return (!container.subnet_address_space.is_empty()).then_some(());
    };
    let cidr_v6 = second.and_then(|unit| subnet.cidr_around(unit.first()));
    container.subnet_address_space = cidr.to_string();
    container.subnet_address_space_v6 = cidr_v6.map(|cidr| cidr.to_string());
    container.default_gateway = subnet.gateway_in(cidr).map(|gateway| gateway.to_string());
    container.default_gateway_v6 = cidr_v6
        .and_then(|cidr| subnet.gateway_in(cidr))
        .map(|gateway| gateway.to_string());
    Some(())
}

pub fn set_scaler(status: &mut NodeNetworkConfigStatus, subnet: Option<&subnet::Facts>) {
    status.scaler = subnet.map(|subnet| subnet.scaler).or(status.scaler);
}

/// In any order.
fn same(one: &[IpAssignment], other: &[IpAssignment]) -> bool {
    pairs(one) == pairs(other)
}

/// Name and address of each.
pub fn pairs(list: &[IpAssignment]) -> BTreeSet<(&str, &str)> {
    list.iter()
        .map(|assignment| (assignment.name.as_str(), assignment.ip.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use berth_api::{Subnet, SubnetSpec};
    use uuid::Uuid;

    use super::*;
    use crate::allocator::Secondary;

    fn subnet(cidrs: &[&str], gateways: &[&str]) -> subnet::Facts {
        let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
        let spec = SubnetSpec {
            cidrs: owned(cidrs),
            gateways: owned(gateways),
            ..SubnetSpec::default()
        };
        subnet::Facts::of(&Subnet::new("pods", spec))
    }

    fn with_container(
        now: &NodeNetworkConfigStatus,
        container: &Container,
        subnet: Option<&subnet::Facts>,
        node: &node::Facts,
    ) -> Option<NodeNetworkConfigStatus> {
        super::with_container(now, container, subnet, node, 0)
    }

    fn node(address: &str) -> node::Facts {
        node::Facts {
            address: Some(address.to_owned()),
            ..node::Facts::default()
        }
    }

    fn prefixes(texts: &[&str]) -> Vec<Prefix> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn container(primary: &[&str], secondaries: &[(u128, &str)], short: usize) -> Container {
        let secondary = |(id, unit): &(u128, &str)| Secondary {
            id: Uuid::from_u128(*id),
            units: prefixes(&[unit]),
        };
        Container {
            id: Uuid::from_u128(0xABCD),
            subnet: "pods".to_owned(),
            primary: prefixes(primary),
            secondaries: secondaries.iter().map(secondary).collect(),
            short,
        }
    }

    #[test]
    fn an_empty_container_has_all_that_an_agent_needs_to_start() {
        let facts = subnet(&["10.1.0.0/24", "10.64.0.0/16"], &["10.64.0.1"]);
        let made = container(&["10.64.0.4/32"], &[], 0);
        let status = with_container(
            &NodeNetworkConfigStatus::default(),
            &made,
            Some(&facts),
            &node("192.0.2.7"),
        )
        .unwrap();
        let written = serde_json::to_value(status).unwrap();
        let expected = serde_json::json!({
            "assignedIPCount": 0,
            "status": "Updated",
            "scaler": {
                "batchSize": 16, "requestThresholdPercent": 50, "releaseThresholdPercent": 150, "maxIPCount": 250,
            },
            "networkContainers": [{
                "id": "00000000-0000-0000-0000-00000000abcd",
                "assignmentMode": "dynamic",
                "type": "vnet",
                "primaryIP": "10.64.0.4",
                "subnetName": "pods",
                "subnetAddressSpace": "10.64.0.0/16",
                "defaultGateway": "10.64.0.1",
                "nodeIP": "192.0.2.7",
                "version": 0,
                "status": "NCUpdateSuccess",
            }],
        });
        assert_eq!(written, expected);
    }

    #[test]
    fn both_families_are_placed_each_in_its_own_cidr() {
        let facts = subnet(&["10.64.0.0/16", "fd64::/64"], &["fd64::1"]);
        let made = container(&["10.64.0.4/32", "fd64::4/128"], &[], 0);
        let status = with_container(
            &NodeNetworkConfigStatus::default(),
            &made,
            Some(&facts),
            &node("192.0.2.7"),
        )
        .unwrap();
        let container = &status.network_containers[0];
        assert_eq!(container.primary_ip_v6.as_deref(), Some("fd64::4"));
        assert_eq!(container.subnet_address_space_v6.as_deref(), Some("fd64::/64"));
        assert_eq!(container.default_gateway, None);
        assert_eq!(container.default_gateway_v6.as_deref(), Some("fd64::1"));
    }

    #[test]
    fn the_version_goes_up_with_the_list_and_with_nothing_else() {
        let mut facts = subnet(&["10.64.0.0/16"], &[]);
        let empty = with_container(
            &NodeNetworkConfigStatus::default(),
            &container(&["10.64.0.4/32"], &[], 0),
            Some(&facts),
            &node("192.0.2.7"),
        )
        .unwrap();
        let two = container(&["10.64.0.4/32"], &[(1, "10.64.0.5/32"), (2, "10.64.0.6/32")], 0);
        let grown = with_container(&empty, &two, Some(&facts), &node("192.0.2.7")).unwrap();
        assert_eq!((grown.network_containers[0].version, grown.assigned_ip_count), (1, 2));

        facts.scaler.batch_size = 4;
        let moved = with_container(&grown, &two, Some(&facts), &node("192.0.2.8")).unwrap();
        assert_eq!(moved.network_containers[0].version, 1);
        assert_eq!(moved.network_containers[0].node_ip, "192.0.2.8");
        assert_eq!(moved.scaler.unwrap().batch_size, 4);
    }

    #[test]
    fn what_could_not_be_given_is_said_in_both_places() {
        let facts = subnet(&["10.64.0.0/16"], &[]);
        let short = container(&["10.64.0.4/32"], &[(1, "10.64.0.5/32")], 3);
        let status =
            with_container(&NodeNetworkConfigStatus::default(), &short, Some(&facts), &node("a"))
                .unwrap();
        assert_eq!(status.status, Some(Progress::Error));
        assert_eq!(status.network_containers[0].status, Some(ContainerStatus::SubnetFull));
        assert_eq!(status.assigned_ip_count, 1);
    }

    #[test]
    fn the_container_of_an_earlier_node_goes_and_that_of_its_pod_cidr_stays() {
        let facts = subnet(&["10.64.0.0/16"], &[]);
        let overlay = NetworkContainer {
            id: "o".to_owned(),
            container_type: OVERLAY.to_owned(),
            ..NetworkContainer::default()
        };
        let earlier = NetworkContainer {
            id: "e".to_owned(),
            container_type: VNET.to_owned(),
            ..NetworkContainer::default()
        };
        let before = NodeNetworkConfigStatus {
            network_containers: vec![earlier, overlay],
            ..NodeNetworkConfigStatus::default()
        };
        let made = container(&["10.64.0.4/32"], &[], 0);
        let status = with_container(&before, &made, Some(&facts), &node("a")).unwrap();
        let ids: Vec<&str> = status
            .network_containers
            .iter()
            .map(|container| container.id.as_str())
            .collect();
        assert_eq!(ids, ["00000000-0000-0000-0000-00000000abcd", "o"]);
    }

    #[test]
    fn a_node_without_an_address_keeps_the_one_that_is_written() {
        let facts = subnet(&["10.64.0.0/16"], &[]);
        let made = container(&["10.64.0.4/32"], &[], 0);
        let status =
            with_container(&NodeNetworkConfigStatus::default(), &made, Some(&facts), &node("a"))
                .unwrap();
        let nameless = node::Facts::default();
        let again = with_container(&status, &made, Some(&facts), &nameless).unwrap();
        assert_eq!(again, status);
    }
}
