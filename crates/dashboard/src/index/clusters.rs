//! Clusters with their own machines, as the page lists them.

use kube::core::DynamicObject;
use serde_json::Value;

/// The part of a Cluster that is read here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterFacts {
    pub is_vsphere: bool,
    /// The CIDRs of its machine networks, as written.
    pub cidrs: Vec<String>,
}

impl ClusterFacts {
    pub fn of(cluster: &DynamicObject) -> Self {
        Self {
            is_vsphere: is_vsphere(&cluster.data),
            cidrs: cidrs(&cluster.data),
        }
    }
}

pub fn is_vsphere(cluster: &Value) -> bool {
    cluster
        .pointer("/spec/cloud/vsphere")
        .is_some_and(|cloud| !cloud.is_null())
}

/// Reads both forms.
pub fn cidrs(cluster: &Value) -> Vec<String> {
    let list = |pointer: &str| cluster.pointer(pointer).and_then(Value::as_array);
    let blocks = list("/spec/machineNetwork/cidrBlocks").into_iter().flatten();
    let networks = list("/spec/machineNetworks").into_iter().flatten();
    let of_networks = networks.map(|network| network.get("cidr").unwrap_or(&Value::Null));
    let texts = blocks.chain(of_networks);
    texts.map(|cidr| cidr.as_str().unwrap_or_default().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_forms_are_read_and_what_is_no_text_keeps_its_place() {
        let blocks = json!({"spec": {
            "cloud": {"vsphere": {}}, "machineNetwork": {"cidrBlocks": ["10.0.0.0/24", 5]},
        }});
        assert_eq!(cidrs(&blocks), ["10.0.0.0/24", ""]);
        assert!(is_vsphere(&blocks));
        let list = json!({"spec": {
            "cloud": {"vsphere": null}, "machineNetworks": [{"gateway": "x"}, {"cidr": "fd00::/64"}],
        }});
        assert_eq!(cidrs(&list), ["", "fd00::/64"]);
        assert!(!is_vsphere(&list));
    }
}
