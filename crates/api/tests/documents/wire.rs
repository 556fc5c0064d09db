//! What the types look like on the wire, key by key.

use berth_api::nnc::{
    self, AssignmentMode, ContainerStatus, IpAssignment, NetworkContainer, Progress,
};
use berth_api::subnet::{Exhaustion, Scaler, UnitLengths, Use};
use berth_api::{
    ClusterSubnetState, Count, NodeNetworkConfig, NodeNetworkConfigSpec, NodeNetworkConfigStatus,
    Subnet, SubnetSpec, SubnetStatus,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn round_trip<T: Serialize + DeserializeOwned>(wire: &Value) -> T {
    let read: T = serde_json::from_value(wire.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), *wire);
    read
}

#[test]
fn an_nnc_has_azures_keys_including_the_misspelt_one() {
    let wire = json!({
        "apiVersion": "acn.azure.com/v1alpha",
        "kind": "NodeNetworkConfig",
        "metadata": {"name": "node-1", "namespace": "kube-system"},
        "spec": {"requestedIPCount": 16, "ipsNotInUse": ["n1"], "availabilityZone": 2},
        "status": {
            "assignedIPCount": 1,
            "scaler": {"batchSize": 16, "releaseThresholdPercent": 150, "requestThresholdPercent": 50, "maxIPCount": 250},
            "status": "Updated",
            "networkContainers": [{
                "id": "c1",
                "assignmentMode": "static",
                "type": "overlay",
                "primaryIP": "10.64.0.0/24",
                "primaryIPV6": "fd64::/64",
                "subnetName": "pods",
                "ipAssignments": [{"name": "n2", "ip": "10.64.0.5"}],
                "defaultGateway": "10.64.0.1",
                "defaultGatewayV6": "fd64::1",
                "macAddress": "02:00:00:00:00:01",
                "subnetAddressSpace": "10.64.0.0/16",
                "subnetAddressSpaceV6": "fd64::/56",
                "version": 3,
                "nodeIP": "192.0.2.1",
                "subcriptionID": "sub",
                "resourceGroupID": "group",
                "vnetID": "vnet",
                "subnetID": "subnet",
                "status": "NCUpdateSubnetFullError",
            }],
        },
    });
    let nnc: NodeNetworkConfig = round_trip(&wire);
    let status = nnc.status.unwrap();
    assert_eq!(status.status, Some(Progress::Updated));
    let container = &status.network_containers[0];
    assert_eq!(container.subscription_id.as_deref(), Some("sub"));
    assert_eq!(container.assignment_mode, AssignmentMode::Static);
    assert_eq!(container.status, Some(ContainerStatus::SubnetFull));
}

#[test]
fn an_empty_network_container_is_written_as_cns_needs_it() {
    let container = NetworkContainer {
        id: "c1".to_owned(),
        container_type: nnc::VNET.to_owned(),
        primary_ip: "10.64.0.4".to_owned(),
        subnet_name: "pods".to_owned(),
        subnet_address_space: "10.64.0.0/16".to_owned(),
        node_ip: "192.0.2.1".to_owned(),
        ..NetworkContainer::default()
    };
    let status = NodeNetworkConfigStatus {
        scaler: Some(Scaler::default().into()),
        network_containers: vec![container],
        ..NodeNetworkConfigStatus::default()
    };
    assert_eq!(
        serde_json::to_value(status).unwrap(),
        json!({
            "assignedIPCount": 0,
            "scaler": {"batchSize": 16, "releaseThresholdPercent": 150, "requestThresholdPercent": 50, "maxIPCount": 250},
            "networkContainers": [{
                "id": "c1",
                "assignmentMode": "dynamic",
                "type": "vnet",
                "primaryIP": "10.64.0.4",
                "subnetName": "pods",
                "subnetAddressSpace": "10.64.0.0/16",
                "version": 0,
                "nodeIP": "192.0.2.1",
            }],
        })
    );
}

#[test]
fn what_cns_leaves_out_reads_as_the_crds_defaults() {
    let nnc: NodeNetworkConfig = serde_json::from_value(json!({
        "apiVersion": "acn.azure.com/v1alpha",
        "kind": "NodeNetworkConfig",
        "metadata": {"name": "node-1"},
        "spec": {},
        "status": {
            "assignedIPCount": 0,
            "scaler": {},
            "networkContainers": [{"id": "c1", "ipAssignments": [{"name": "n1", "ip": "10.64.0.5"}]}],
        },
    }))
    .unwrap();
    assert_eq!(nnc.spec, NodeNetworkConfigSpec::default());
    let status = nnc.status.unwrap();
    assert_eq!(status.scaler, Some(nnc::Scaler::default()));
    let container = &status.network_containers[0];
    assert_eq!(
        (
            container.container_type.as_str(),
            container.assignment_mode,
            container.version
        ),
        ("vnet", AssignmentMode::Dynamic, 0)
    );
    assert_eq!(
        container.ip_assignments,
        [IpAssignment {
            name: "n1".to_owned(),
            ip: "10.64.0.5".to_owned()
        }]
    );
}

#[test]
fn a_new_spec_asks_for_nothing_and_says_so() {
    let spec = NodeNetworkConfigSpec::default();
    assert_eq!(serde_json::to_value(spec).unwrap(), json!({"requestedIPCount": 0}));
}

#[test]
fn a_cluster_subnet_state_has_a_status_and_no_spec() {
    let wire = json!({
        "apiVersion": "acn.azure.com/v1alpha1",
        "kind": "ClusterSubnetState",
        "metadata": {"name": "pods", "namespace": "kube-system"},
        "status": {"exhausted": true, "timestamp": "2026-11-15T04:00:00Z"},
    });
    let state: ClusterSubnetState = round_trip(&wire);
    assert!(state.status.unwrap().exhausted);
}

#[test]
fn a_subnet_reads_as_it_is_documented() {
    let wire = json!({
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "Subnet",
        "metadata": {"name": "pods"},
        "spec": {
            "use": "node-cidrs",
            "cidrs": ["10.64.0.0/16", "fd64::/56"],
            "ranges": ["10.64.1.0-10.64.9.255"],
            "excludes": ["10.64.0.10-10.64.0.20", "10.64.7.0/28"],
            "unitLengths": {"ipv4": 24, "ipv6": 64},
            "gateways": ["10.64.0.1", "fd64::1"],
            "dns": ["10.64.0.53"],
            "nodeSelector": {"matchLabels": {"pool": "a"}},
            "scaler": {"batchSize": 8, "requestThresholdPercent": 40, "releaseThresholdPercent": 140, "maxIPCount": 100},
            "exhaustion": {"enterPercent": 80, "leavePercent": 70},
            "reuseDelay": "1m0s",
        },
        "status": {"observedGeneration": 1, "capacity": "18446744073709551616", "reserved": 0, "coolingDown": 0, "free": 65533},
    });
    let subnet: Subnet = round_trip(&wire);
    assert_eq!(subnet.spec.usage, Use::NodeCidrs);
    assert_eq!(subnet.status.unwrap().capacity, Some(Count(1 << 64)));
}

#[test]
fn a_subnet_of_cidrs_alone_has_the_documented_defaults() {
    let subnet: Subnet = serde_json::from_value(json!({
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "Subnet",
        "metadata": {"name": "pods"},
        "spec": {"cidrs": ["10.64.0.0/16"]},
    }))
    .unwrap();
    let want = SubnetSpec {
        usage: Use::Pods,
        cidrs: vec!["10.64.0.0/16".to_owned()],
        ranges: vec![],
        excludes: vec![],
        unit_lengths: UnitLengths::default(),
        gateways: vec![],
        dns: vec![],
        node_selector: LabelSelector::default(),
        scaler: Scaler {
            batch_size: 16,
            request_threshold_percent: 50,
            release_threshold_percent: 150,
            max_ip_count: 250,
        },
        exhaustion: Exhaustion {
            enter_percent: 95,
            leave_percent: 90,
        },
        reuse_delay: "30s".to_owned(),
    };
    assert_eq!(subnet.spec, want);
    assert_eq!(
        SubnetSpec {
            cidrs: want.cidrs.clone(),
            ..SubnetSpec::default()
        },
        want
    );
    assert_eq!(serde_json::to_value(SubnetStatus::default()).unwrap(), json!({}));
}
