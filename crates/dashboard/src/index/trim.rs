//! Of large objects, the part that is read here: thousands of them are kept.

use berth_api::NodeNetworkConfig;
use berth_inspect::facts::NncFacts;
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

pub fn nnc(nnc: &NodeNetworkConfig) -> NncFacts {
    let mut nnc = NncFacts::of(nnc.clone());
    nnc.object.metadata = metadata(&nnc.object.metadata);
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
