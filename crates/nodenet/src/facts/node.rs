//! What matters here of a Node.

use std::collections::BTreeMap;

use berth_api::{MachineIds, ObservedNode};
use k8s_openapi::api::core::v1::ObjectReference;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// A node that is created again under the same name has another UID.
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    /// The first InternalIP.
    pub address: Option<String>,
    pub pod_cidrs: Vec<String>,
    pub deleting: bool,
    /// The machine's id from the kubelet: the same machine under another UID is the same node,
    /// registered again.
    pub machine: Option<String>,
}

impl NodeFacts {
    pub fn of(node: &ObservedNode) -> Self {
        let metadata = &node.metadata;
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            address: node.internal_ips().next().map(str::to_owned),
            pod_cidrs: node.pod_cidrs().map(str::to_owned).collect(),
            deleting: metadata.deletion_timestamp.is_some(),
            machine: machine(node.machine()),
        }
    }
}

/// Built from both ids: machines that were cloned may share the first one.
fn machine(ids: &MachineIds) -> Option<String> {
    let known = !ids.machine_id.is_empty() && !ids.system_uuid.is_empty();
    known.then(|| format!("{}/{}", ids.machine_id, ids.system_uuid))
}

/// For events about a node.
pub fn reference(name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}
