use berth_api::{Subnet, SubnetSpec};
use uuid::Uuid;

use super::*;
use crate::allocator::Secondary;

fn subnet(cidrs: &[&str], gateways: &[&str]) -> SubnetFacts {
    let owned = |texts: &[&str]| texts.iter().map(ToString::to_string).collect();
    let spec = SubnetSpec {
        cidrs: owned(cidrs),
        gateways: owned(gateways),
        ..SubnetSpec::default()
    };
    SubnetFacts::of(&Subnet::new("pods", spec))
}

fn with_container(
    now: &NodeNetworkConfigStatus,
    container: &Container,
    subnet: Option<&SubnetFacts>,
    node: &NodeFacts,
) -> Option<NodeNetworkConfigStatus> {
    super::with_container(now, container, subnet, node, 0)
}

fn node(address: &str) -> NodeFacts {
    NodeFacts {
        address: Some(address.to_owned()),
        ..NodeFacts::default()
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
            "batchSize": 16, "requestThresholdPercent": 50, "releaseThresholdPercent": 150,
            "maxIPCount": 250,
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
fn a_new_container_replaces_the_old_one_but_not_the_overlay() {
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
    let nameless = NodeFacts::default();
    let again = with_container(&status, &made, Some(&facts), &nameless).unwrap();
    assert_eq!(again, status);
}
