use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

use super::or_default;
use crate::view::view_of;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ObservedNode {
    #[serde(deserialize_with = "super::metadata")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "or_default")]
    spec: Spec,
    #[serde(deserialize_with = "or_default")]
    status: Status,
}

view_of!(ObservedNode, Node);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(rename = "podCIDR", deserialize_with = "or_default")]
    pod_cidr: String,
    #[serde(rename = "podCIDRs", deserialize_with = "or_default")]
    pod_cidrs: Vec<String>,
    #[serde(rename = "providerID", deserialize_with = "or_default")]
    provider_id: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    #[serde(deserialize_with = "or_default")]
    capacity: PodResources,
    #[serde(deserialize_with = "or_default")]
    allocatable: PodResources,
    #[serde(deserialize_with = "or_default")]
    addresses: Vec<NodeAddress>,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<NodeCondition>,
    #[serde(deserialize_with = "or_default")]
    node_info: MachineIds,
}

/// The resources of a node that are about pods. `None` if the value is missing or not a whole
/// number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodResources {
    #[serde(deserialize_with = "whole_number")]
    pub pods: Option<u64>,
    /// Berth's extended resource.
    #[serde(rename = "berth.dev/pod-ips", deserialize_with = "whole_number")]
    pub pod_ips: Option<u64>,
}

fn whole_number<'de, D: Deserializer<'de>>(input: D) -> Result<Option<u64>, D::Error> {
    let quantity = Option::<String>::deserialize(input)?;
    Ok(quantity.and_then(|quantity| quantity.parse().ok()))
}

/// The identifiers of a kubelet's machine. A missing one is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct MachineIds {
    #[serde(rename = "bootID", deserialize_with = "or_default")]
    pub boot_id: String,
    #[serde(rename = "machineID", deserialize_with = "or_default")]
    pub machine_id: String,
    #[serde(rename = "systemUUID", deserialize_with = "or_default")]
    pub system_uuid: String,
}

impl ObservedNode {
    /// Old objects have only the first podCIDR.
    pub fn pod_cidrs(&self) -> impl Iterator<Item = &str> {
        let Spec {
            pod_cidr, pod_cidrs, ..
        } = &self.spec;
        let one = Some(pod_cidr).filter(|one| pod_cidrs.is_empty() && !one.is_empty());
        pod_cidrs.iter().chain(one).map(String::as_str)
    }

    /// The cloud's name for its machine. Empty without a cloud.
    pub fn provider_id(&self) -> &str {
        &self.spec.provider_id
    }

    pub fn capacity(&self) -> PodResources {
        self.status.capacity
    }

    /// The part of the capacity that pods can have.
    pub fn allocatable(&self) -> PodResources {
        self.status.allocatable
    }

    /// In the order in which the kubelet reports them.
    pub fn addresses(&self) -> &[NodeAddress] {
        &self.status.addresses
    }

    pub fn internal_ips(&self) -> impl Iterator<Item = &str> {
        let internal = self.addresses().iter().filter(|one| one.type_ == "InternalIP");
        internal.map(|one| one.address.as_str())
    }

    pub fn machine(&self) -> &MachineIds {
        &self.status.node_info
    }

    pub fn condition(&self, name: &str) -> Option<&NodeCondition> {
        self.status.conditions.iter().find(|condition| condition.type_ == name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::names::POD_IPS;

    #[test]
    fn a_node_of_an_api_server_is_read_as_far_as_it_is_needed() {
        let node: ObservedNode = serde_json::from_value(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "n1", "labels": {"zone": "a"}, "managedFields": [{}]},
            "spec": {
                "podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"],
                "providerID": "aws:///eu-central-1a/i-0123456789abcdef0",
            },
            "status": {
                "addresses": [
                    {"type": "Hostname", "address": "n1"},
                    {"type": "InternalIP", "address": "192.0.2.1"},
                ],
                "capacity": {"pods": "110", "memory": "8Gi"},
                "allocatable": {"pods": "1k", POD_IPS: "100"},
                "conditions": [{"type": "Ready", "status": "True"}],
                "images": [{"names": ["x"], "sizeBytes": 1}],
                "nodeInfo": {"bootID": "b", "machineID": "m", "systemUUID": "u", "osImage": ""},
            },
        }))
        .unwrap();
        let cidrs: Vec<&str> = node.pod_cidrs().collect();
        assert_eq!(cidrs, ["10.0.0.0/24", "fd00::/64"]);
        assert_eq!(
            node.capacity(),
            PodResources {
                pods: Some(110),
                pod_ips: None
            }
        );
        assert_eq!(
            node.allocatable(),
            PodResources {
                pods: None,
                pod_ips: Some(100)
            }
        );
        assert_eq!(node.internal_ips().collect::<Vec<_>>(), ["192.0.2.1"]);
        assert_eq!(node.addresses().len(), 2);
        assert_eq!(node.provider_id(), "aws:///eu-central-1a/i-0123456789abcdef0");
        let MachineIds {
            boot_id,
            machine_id,
            system_uuid,
        } = node.machine();
        assert_eq!([boot_id, machine_id, system_uuid], ["b", "m", "u"]);
        assert_eq!(node.condition("Ready").unwrap().status, "True");
        assert_eq!(node.metadata.labels.unwrap()["zone"], "a");
    }

    #[test]
    fn an_old_node_has_the_first_of_its_pod_cidrs_only() {
        let cidrs = |spec| {
            let node = json!({"metadata": {"name": "n1"}, "spec": spec});
            let node: ObservedNode = serde_json::from_value(node).unwrap();
            node.pod_cidrs().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(cidrs(json!({"podCIDR": "10.0.0.0/24"})), ["10.0.0.0/24"]);
        assert_eq!(cidrs(json!({"podCIDR": ""})), [""; 0]);
    }
    #[test]
    fn what_is_null_is_read_as_what_is_not_there() {
        let node: ObservedNode = serde_json::from_value(json!({
            "metadata": {"name": "n1", "labels": null},
            "spec": {"podCIDR": null, "podCIDRs": null, "providerID": null},
            "status": {
                "capacity": null, "allocatable": {"pods": null}, "addresses": null,
                "conditions": null, "nodeInfo": {"bootID": null},
            },
        }))
        .unwrap();
        assert_eq!(node.pod_cidrs().count() + node.internal_ips().count(), 0);
        assert_eq!(node.allocatable(), PodResources::default());
        let bare = json!({"metadata": {"name": "n1"}, "spec": null, "status": null});
        let node: ObservedNode = serde_json::from_value(bare).unwrap();
        assert_eq!(node.machine(), &MachineIds::default());
    }
}
