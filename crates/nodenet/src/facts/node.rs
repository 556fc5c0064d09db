//! What matters here of a Node.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, ObjectReference};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// Another node of the same name is another node.
    pub uid: String,
    pub labels: BTreeMap<String, String>,
    /// The first InternalIP.
    pub address: Option<String>,
    pub pod_cidrs: Vec<String>,
    pub deleting: bool,
    /// What the kubelet calls the machine: the same one under another UID is the same node,
    /// registered again.
    pub machine: Option<String>,
}

impl NodeFacts {
    pub fn of(node: &Node) -> Self {
        let metadata = &node.metadata;
        let spec = node.spec.as_ref();
        let addresses = node.status.as_ref().and_then(|status| status.addresses.as_ref());
        let internal = addresses
            .into_iter()
            .flatten()
            .find(|address| address.type_ == "InternalIP");
        let one = spec.and_then(|spec| spec.pod_cidr.clone());
        let all = spec.and_then(|spec| spec.pod_cidrs.clone());
        Self {
            uid: metadata.uid.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            address: internal.map(|internal| internal.address.clone()),
            pod_cidrs: all.unwrap_or_else(|| one.into_iter().collect()),
            deleting: metadata.deletion_timestamp.is_some(),
            machine: machine(node),
        }
    }
}

/// By both ids: machines that were cloned may share the first one.
fn machine(node: &Node) -> Option<String> {
    let info = node.status.as_ref()?.node_info.as_ref()?;
    let known = !info.machine_id.is_empty() && !info.system_uuid.is_empty();
    known.then(|| format!("{}/{}", info.machine_id, info.system_uuid))
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
