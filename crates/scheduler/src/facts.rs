//! What accounting needs of Nodes, NodeNetworkConfigs, Subnets and Pods, read from the objects.

mod pod;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use berth_addr::Family;
use berth_api::nnc::{AssignmentMode, NetworkContainer, OVERLAY, VNET_BLOCK};
use berth_api::subnet::Use;
use berth_api::{Count, NodeNetworkConfig, ObservedNode, Subnet};
use jiff::Timestamp;

use crate::capacity::{self, CidrCapacity};

pub use pod::PodFacts;

/// What a Node has: the capacity of its podCIDRs, and its extended resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    pub cidrs: CidrCapacity,
    pub capacity: Option<u64>,
    pub allocatable: Option<u64>,
    /// How many pods it runs at most.
    pub max_pods: Option<u64>,
    pub created: Option<Timestamp>,
}

impl NodeFacts {
    pub fn of(node: &ObservedNode, reserved_per_cidr: u64) -> Self {
        Self {
            cidrs: capacity::of_pod_cidrs(node.pod_cidrs(), reserved_per_cidr),
            capacity: node.capacity().pod_ips,
            allocatable: node.allocatable().pod_ips,
            max_pods: node.allocatable().pods,
            created: node.metadata.creation_timestamp.as_ref().map(|time| time.0),
        }
    }
}

/// What a NodeNetworkConfig gives the pods of its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NncFacts {
    /// No container for pods yet.
    Empty,
    /// Blocks of its own, which do not grow: container type overlay.
    Blocks { subnet: String, pods: u64 },
    /// Addresses of a subnet that other nodes use as well.
    Leases(Leases),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leases {
    pub subnet: String,
    /// What pods can have: without what the agent is giving back.
    pub has: u64,
    /// All that the subnet has given, the container's own address included.
    pub listed: u64,
    /// The most that the node may have.
    pub max: u64,
    /// How many are asked for at a time.
    pub batch: u64,
}

impl NncFacts {
    pub fn of(nnc: &NodeNetworkConfig) -> Self {
        let Some(status) = &nnc.status else {
            return Self::Empty;
        };
        let (blocks, leases): (Vec<_>, Vec<_>) =
            status.network_containers.iter().partition(|nc| has_blocks(nc));
        // If a node has leases, its agent gives pods no address of its blocks.
        if let Some(nc) = leases.first() {
            let scaler = status.scaler.unwrap_or_default();
            let given_back: BTreeSet<&str> =
                nnc.spec.ips_not_in_use.iter().map(String::as_str).collect();
            let (has, listed) = count(nc, &given_back);
            return Self::Leases(Leases {
                subnet: nc.subnet_name.clone(),
                has,
                listed: listed.saturating_add(1),
                max: u64::try_from(scaler.max_ip_count)
                    .ok()
                    .filter(|max| *max > 0)
                    .unwrap_or(u64::MAX),
                batch: u64::try_from(scaler.batch_size).unwrap_or(0).max(1),
            });
        }
        if blocks.is_empty() {
            return Self::Empty;
        }
        let texts = blocks.iter().flat_map(|nc| block_texts(nc));
        let gateways: Vec<IpAddr> = blocks.iter().flat_map(|nc| gateways(nc)).collect();
        Self::Blocks {
            subnet: blocks.first().map(|nc| nc.subnet_name.clone()).unwrap_or_default(),
            pods: capacity::of_blocks(texts, &gateways),
        }
    }
}

fn has_blocks(nc: &NetworkContainer) -> bool {
    nc.assignment_mode == AssignmentMode::Static
        || matches!(nc.container_type.as_str(), VNET_BLOCK | OVERLAY)
}

fn block_texts(nc: &NetworkContainer) -> impl Iterator<Item = &str> {
    let own = [Some(nc.primary_ip.as_str()), nc.primary_ip_v6.as_deref()];
    let listed = nc.ip_assignments.iter().map(|assignment| assignment.ip.as_str());
    own.into_iter().flatten().chain(listed)
}

fn gateways(nc: &NetworkContainer) -> impl Iterator<Item = IpAddr> {
    let texts = [&nc.default_gateway, &nc.default_gateway_v6];
    texts.into_iter().flatten().filter_map(|text| text.parse().ok())
}

/// How many pods can have an address of each family that the subnet has, and how many leases are
/// listed at all.
fn count(nc: &NetworkContainer, given_back: &BTreeSet<&str>) -> (u64, u64) {
    let spaces = [
        Some(nc.subnet_address_space.as_str()),
        nc.subnet_address_space_v6.as_deref(),
    ];
    let spaces = spaces.into_iter().flatten().filter_map(|space| space.split('/').next());
    let spaces = spaces.filter_map(|address| address.parse::<IpAddr>().ok());
    let mut usable: BTreeMap<Family, u64> =
        spaces.map(|address| (Family::of(address), 0)).collect();
    let mut listed: BTreeMap<Family, u64> = BTreeMap::new();
    for assignment in &nc.ip_assignments {
        let Ok(address) = assignment.ip.parse::<IpAddr>() else {
            continue;
        };
        let family = Family::of(address);
        *listed.entry(family).or_default() += 1;
        *usable.entry(family).or_default() +=
            u64::from(!given_back.contains(assignment.name.as_str()));
    }
    let has = usable.into_values().min().unwrap_or(0);
    let listed = listed.into_values().max().unwrap_or(0);
    (has, listed)
}

/// The size of a Subnet for pods, and how many of its addresses no node has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubnetFacts {
    pub capacity: u64,
    /// Free now or after the reuse delay; a subnet that runs out of addresses shortens that delay.
    pub available: u64,
}

impl SubnetFacts {
    /// `None` for a Subnet that is not for pods.
    pub fn of(subnet: &Subnet) -> Option<Self> {
        if subnet.spec.usage != Use::Pods {
            return None;
        }
        let Some(status) = &subnet.status else {
            return Some(Self::default());
        };
        let number =
            |count: Option<Count>| u64::try_from(count.unwrap_or_default().0).unwrap_or(u64::MAX);
        Some(Self {
            capacity: number(status.capacity),
            available: number(status.free).saturating_add(number(status.cooling_down)),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn node(spec: Value) -> NodeFacts {
        let node =
            serde_json::from_value(json!({"metadata": {"name": "n"}, "spec": spec})).unwrap();
        NodeFacts::of(&node, 2)
    }

    fn nnc(spec: Value, containers: Value) -> NncFacts {
        let scaler = json!({"batchSize": 16, "maxIPCount": 250});
        let status = json!({"scaler": scaler, "networkContainers": containers});
        let object = json!({
            "apiVersion": "acn.azure.com/v1alpha", "kind": "NodeNetworkConfig",
            "metadata": {"name": "n"}, "spec": spec, "status": status,
        });
        NncFacts::of(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn a_pod_cidr_alone_counts_where_the_list_is_empty() {
        assert_eq!(node(json!({"podCIDR": "10.1.0.0/29"})).cidrs, CidrCapacity::Pods(6));
        let both = json!({"podCIDR": "10.1.0.0/29", "podCIDRs": ["10.1.0.0/29", "fd00::/64"]});
        assert_eq!(node(both).cidrs, CidrCapacity::Pods(6));
        assert_eq!(node(json!({})).cidrs, CidrCapacity::Missing);
    }

    #[test]
    fn what_the_agent_gives_back_is_no_pods() {
        let assignments = json!([
            {"name": "a", "ip": "10.0.0.5"}, {"name": "b", "ip": "10.0.0.6"}, {"name": "c", "ip": "10.0.0.7"},
        ]);
        let container = json!({
            "id": "c", "type": "vnet", "assignmentMode": "dynamic", "primaryIP": "10.0.0.4",
            "subnetName": "pods", "subnetAddressSpace": "10.0.0.0/24", "ipAssignments": assignments,
        });
        let facts = nnc(
            json!({"requestedIPCount": 2, "ipsNotInUse": ["b", "gone"]}),
            json!([container]),
        );
        let leases = Leases {
            subnet: "pods".to_owned(),
            has: 2,
            listed: 4,
            max: 250,
            batch: 16,
        };
        assert_eq!(facts, NncFacts::Leases(leases));
    }

    #[test]
    fn a_lease_of_two_families_is_for_one_pod() {
        let assignments = json!([
            {"name": "a", "ip": "10.0.0.5"}, {"name": "b", "ip": "fd00::5"}, {"name": "c", "ip": "10.0.0.6"},
        ]);
        let container = json!({
            "id": "c", "type": "vnet", "primaryIP": "10.0.0.4", "primaryIPV6": "fd00::4", "subnetName": "pods",
            "subnetAddressSpace": "10.0.0.0/24", "subnetAddressSpaceV6": "fd00::/64", "ipAssignments": assignments,
        });
        let NncFacts::Leases(leases) = nnc(json!({}), json!([container])) else {
            panic!("it has leases");
        };
        assert_eq!((leases.has, leases.listed), (1, 3));
    }

    #[test]
    fn an_overlay_container_has_its_blocks_without_the_gateway() {
        let container = json!({
            "id": "c", "type": "overlay", "assignmentMode": "static", "primaryIP": "10.244.0.0/29",
            "subnetName": "nodes", "defaultGateway": "10.244.0.1",
        });
        let blocks = NncFacts::Blocks {
            subnet: "nodes".to_owned(),
            pods: 7,
        };
        assert_eq!(nnc(json!({}), json!([container])), blocks);
        assert_eq!(nnc(json!({}), json!([])), NncFacts::Empty);
    }

    #[test]
    fn only_subnets_for_pods_are_shared() {
        let subnet = |usage| {
            let status = json!({"capacity": 100, "reserved": 90, "coolingDown": 4, "free": 6});
            let object = json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "Subnet", "metadata": {"name": "s"},
                "spec": {"use": usage, "cidrs": ["10.0.0.0/24"]}, "status": status,
            });
            SubnetFacts::of(&serde_json::from_value(object).unwrap())
        };
        let facts = SubnetFacts {
            capacity: 100,
            available: 10,
        };
        assert_eq!(subnet("pods"), Some(facts));
        assert_eq!(subnet("node-cidrs"), None);
    }
}
