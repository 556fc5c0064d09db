//! A Pod, read no further than is needed here.

use std::net::IpAddr;

use berth_addr::scaling::Phase;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ObjectMeta;
use serde::Deserialize;

#[derive(Clone, Debug, Default, Deserialize)]
pub struct ObservedPod {
    #[serde(default)]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
    #[serde(default)]
    host_network: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    #[serde(default)]
    phase: String,
    #[serde(default, rename = "podIPs")]
    pod_ips: Vec<PodIp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct PodIp {
    #[serde(default)]
    ip: String,
}

impl ObservedPod {
    /// `None` for one that no node has.
    pub fn node(&self) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|node| !node.is_empty())
    }

    /// It is not on the host's network and not finished. One that is being deleted has its address
    /// until it is gone.
    pub fn needs_address(&self) -> bool {
        !self.spec.host_network && !Phase::from_name(&self.status.phase).is_finished()
    }

    /// What it has, IPv4 first.
    pub fn addresses(&self) -> Vec<IpAddr> {
        if !self.needs_address() {
            return Vec::new();
        }
        let listed = self.status.pod_ips.iter().filter_map(|listed| listed.ip.parse().ok());
        let mut addresses: Vec<IpAddr> = listed.collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }
}

berth_kit::view_of!(ObservedPod, Pod);

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(spec: Value, status: Value) -> ObservedPod {
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec, "status": status}))
            .unwrap()
    }

    #[test]
    fn a_running_pod_has_what_it_shows_ipv4_first() {
        let shown = json!({"phase": "Running", "podIPs": [{"ip": "fd00::5"}, {"ip": "10.0.0.5"}]});
        let pod = pod(json!({"nodeName": "n1", "containers": []}), shown);
        assert_eq!(pod.node(), Some("n1"));
        let addresses: Vec<String> = pod.addresses().iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["10.0.0.5", "fd00::5"]);
    }

    #[test]
    fn a_finished_pod_and_one_on_the_host_have_none() {
        let shown = json!({"phase": "Succeeded", "podIPs": [{"ip": "10.0.0.5"}]});
        assert!(pod(json!({"nodeName": "n1"}), shown).addresses().is_empty());
        let shown = json!({"phase": "Running", "podIPs": [{"ip": "192.0.2.1"}]});
        let on_host = pod(json!({"nodeName": "n1", "hostNetwork": true}), shown);
        assert!(on_host.addresses().is_empty() && !on_host.needs_address());
        assert_eq!(pod(json!({}), json!({})).node(), None);
    }
}
