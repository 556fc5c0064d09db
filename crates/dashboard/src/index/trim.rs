//! Of large objects, the part that is read here: thousands of them are kept.

use berth_api::NodeNetworkConfig;
use k8s_openapi::api::core::v1::{Node, NodeSpec, NodeStatus};
use kube::core::ObjectMeta;

pub fn node(node: &Node) -> Node {
    let spec = node.spec.as_ref();
    let status = node.status.as_ref();
    Node {
        metadata: metadata(&node.metadata),
        spec: spec.map(|spec| NodeSpec {
            pod_cidr: spec.pod_cidr.clone(),
            pod_cidrs: spec.pod_cidrs.clone(),
            unschedulable: spec.unschedulable,
            ..NodeSpec::default()
        }),
        status: status.map(|status| NodeStatus {
            addresses: status.addresses.clone(),
            conditions: status.conditions.clone(),
            ..NodeStatus::default()
        }),
    }
}

/// Without the names of the leases, of which a node has hundreds.
pub fn nnc(nnc: &NodeNetworkConfig) -> NodeNetworkConfig {
    let mut nnc = nnc.clone();
    nnc.metadata = metadata(&nnc.metadata);
    let containers = nnc.status.iter_mut().flat_map(|status| &mut status.network_containers);
    for assignment in containers.flat_map(|container| &mut container.ip_assignments) {
        assignment.name = String::new();
    }
    nnc
}

fn metadata(of: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: of.name.clone(),
        namespace: of.namespace.clone(),
        uid: of.uid.clone(),
        creation_timestamp: of.creation_timestamp.clone(),
        deletion_timestamp: of.deletion_timestamp.clone(),
        ..ObjectMeta::default()
    }
}
