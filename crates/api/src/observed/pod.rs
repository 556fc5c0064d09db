use std::collections::BTreeMap;
use std::net::IpAddr;

use berth_addr::scaling::Phase;
use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::or_default;
use crate::view::view_of;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ObservedPod {
    #[serde(deserialize_with = "super::metadata")]
    pub metadata: ObjectMeta,
    #[serde(deserialize_with = "or_default")]
    spec: Spec,
    #[serde(deserialize_with = "or_default")]
    status: Status,
}

view_of!(ObservedPod, Pod);

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    #[serde(deserialize_with = "or_default")]
    node_name: String,
    #[serde(deserialize_with = "or_default")]
    host_network: bool,
    #[serde(deserialize_with = "or_default")]
    containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Container {
    #[serde(deserialize_with = "or_default")]
    resources: Resources,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Resources {
    #[serde(deserialize_with = "or_default")]
    requests: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    #[serde(deserialize_with = "or_default")]
    phase: String,
    #[serde(rename = "podIPs", deserialize_with = "or_default")]
    pod_ips: Vec<PodIp>,
    #[serde(deserialize_with = "or_default")]
    nominated_node_name: String,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<PodCondition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodIp {
    #[serde(deserialize_with = "or_default")]
    ip: String,
}

impl ObservedPod {
    /// `None` for a pod without a node.
    pub fn node(&self) -> Option<&str> {
        Some(self.spec.node_name.as_str()).filter(|node| !node.is_empty())
    }

    /// The node that kube-scheduler will probably bind it to.
    pub fn nominated_node(&self) -> Option<&str> {
        Some(self.status.nominated_node_name.as_str()).filter(|node| !node.is_empty())
    }

    pub fn is_on_host_network(&self) -> bool {
        self.spec.host_network
    }

    /// The phase as a text. Empty if nobody has reported one yet.
    pub fn phase_name(&self) -> &str {
        &self.status.phase
    }

    pub fn phase(&self) -> Phase {
        Phase::from_name(&self.status.phase)
    }

    /// It is not on the host's network and not finished. A pod that is being deleted keeps its
    /// address until it is gone.
    pub fn needs_address(&self) -> bool {
        !self.spec.host_network && !self.phase().is_finished()
    }

    /// The addresses in its status, in order. A pod on the host's network shows those of the node.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.status.pod_ips.iter().filter_map(|shown| shown.ip.parse().ok())
    }

    /// The requests of its containers for this resource.
    pub fn requests(&self, resource: &str) -> impl Iterator<Item = &str> {
        let containers = self.spec.containers.iter();
        containers.filter_map(move |one| one.resources.requests.get(resource).map(String::as_str))
    }

    pub fn conditions(&self) -> &[PodCondition] {
        &self.status.conditions
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(object: Value) -> ObservedPod {
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn a_pod_of_an_api_server_is_read_as_far_as_it_is_needed() {
        let main = json!({"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}});
        let pod = read(json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "web", "namespace": "default", "uid": "u1", "labels": {"a": "b"},
                "creationTimestamp": "2026-11-16T11:30:00Z",
                "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}],
            },
            "spec": {"containers": [main, {"name": "other"}], "nodeName": "n1", "tolerations": []},
            "status": {
                "phase": "Running", "podIP": "10.0.0.5", "qosClass": "BestEffort",
                "podIPs": [{"ip": "fd00::5"}, {"ip": "10.0.0.5"}, {"ip": "none yet"}],
                "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null}],
            },
        }));
        assert_eq!((pod.node(), pod.phase_name()), (Some("n1"), "Running"));
        assert!(pod.needs_address() && !pod.is_on_host_network());
        let addresses: Vec<String> = pod.addresses().map(|one| one.to_string()).collect();
        assert_eq!(addresses, ["fd00::5", "10.0.0.5"]);
        assert_eq!(pod.requests("cpu").collect::<Vec<_>>(), ["1"]);
        assert_eq!(pod.conditions()[0].type_, "Ready");
        assert_eq!(pod.metadata.uid.as_deref(), Some("u1"));
        assert_eq!(pod.metadata.managed_fields, None);
    }

    #[test]
    fn a_new_pod_is_on_no_node_and_needs_an_address() {
        let pod = read(json!({"metadata": {"name": "web"}, "spec": {"nodeName": ""}}));
        assert_eq!((pod.node(), pod.nominated_node()), (None, None));
        assert!(pod.needs_address());
    }

    #[test]
    fn a_finished_pod_and_one_on_the_host_need_no_address() {
        let finished = json!({"metadata": {}, "spec": {}, "status": {"phase": "Succeeded"}});
        assert!(!read(finished).needs_address());
        let on_host = json!({"metadata": {}, "spec": {"hostNetwork": true}});
        assert!(!read(on_host).needs_address());
    }
    #[test]
    fn what_is_null_is_read_as_what_is_not_there() {
        let pod = read(json!({
            "metadata": {"name": "web"},
            "spec": {
                "nodeName": null, "hostNetwork": null,
                "containers": [{"resources": null}, {"resources": {"requests": null}}],
            },
            "status": {
                "phase": null, "podIPs": [{"ip": null}], "conditions": null,
                "nominatedNodeName": null,
            },
        }));
        assert!(pod.node().is_none() && pod.needs_address());
        assert_eq!(pod.addresses().count() + pod.requests("cpu").count(), 0);
        let bare = read(json!({"metadata": {}, "spec": {"containers": null}, "status": null}));
        assert!(bare.conditions().is_empty());
        assert_eq!(read(json!({"metadata": {}, "spec": null})).nominated_node(), None);
    }
}
