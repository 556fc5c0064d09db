//! What is written into the status of a NodeNetworkConfig. Pure.

use std::collections::BTreeSet;

use berth_addr::Prefix;
use berth_api::NodeNetworkConfigStatus;
use berth_api::nnc::{
    AssignmentMode, ContainerStatus, IpAssignment, NetworkContainer, OVERLAY, Progress, VNET,
};

use crate::allocator::Container;
use crate::assignments::assignments;
use crate::facts::{NodeFacts, SubnetFacts};

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
/// The version goes up only when the addresses for pods change; `first_version` is that of a
/// container that is new here, whatever it has. If the subnet is gone, what it said stays.
pub fn with_container(
    now: &NodeNetworkConfigStatus,
    container: &Container,
    subnet: Option<&SubnetFacts>,
    node: &NodeFacts,
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
    // Other containers for pods belong to an earlier node of this name: their addresses are not
    // this node's.
    status
        .network_containers
        .retain(|other| other.container_type == OVERLAY);
    status.network_containers.insert(0, next);
    Some(status)
}

/// There is no address for a container.
pub fn without_container(
    now: &NodeNetworkConfigStatus,
    subnet: Option<&SubnetFacts>,
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
    subnet: Option<&SubnetFacts>,
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
        // The ledger does not follow this spec: what was written when it did still holds.
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

pub fn set_scaler(status: &mut NodeNetworkConfigStatus, subnet: Option<&SubnetFacts>) {
    status.scaler = subnet.map(|subnet| subnet.scaler).or(status.scaler);
}

/// Whether both lists are the same, in any order.
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
mod tests;
