//! A Pod, read no further than is needed here: with 150,000 of them the rest would be most of this
//! process's memory.

use std::collections::BTreeMap;

use berth_addr::scaling::Phase;
use berth_api::names::POD_IPS;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use serde::Deserialize;

/// What a pod means to accounting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// It is not on the host's network and not finished. One that is being deleted has its address
    /// until it is gone.
    pub needs_ip: bool,
    /// How many of the extended resource it asks for.
    pub asks: u64,
    pub node: Option<String>,
    /// Where it will probably go.
    pub nominated: Option<String>,
}

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
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: Option<String>,
    host_network: bool,
    containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Container {
    resources: Resources,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Resources {
    requests: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    phase: String,
    nominated_node_name: Option<String>,
}

impl ObservedPod {
    pub fn uid(&self) -> Option<&str> {
        self.metadata.uid.as_deref()
    }

    pub fn facts(&self) -> PodFacts {
        let named = |name: &Option<String>| name.clone().filter(|name| !name.is_empty());
        let is_finished = Phase::from_name(&self.status.phase).is_finished();
        let asked = self.spec.containers.iter().map(asks).fold(0, u64::saturating_add);
        PodFacts {
            needs_ip: !self.spec.host_network && !is_finished,
            asks: if is_finished { 0 } else { asked },
            node: named(&self.spec.node_name),
            nominated: named(&self.status.nominated_node_name),
        }
    }

    /// For people.
    pub fn shown(&self) -> String {
        let namespace = self.namespace().unwrap_or_default();
        format!("{namespace}/{}", self.name_any())
    }
}

/// The API server lets only whole numbers in.
fn asks(container: &Container) -> u64 {
    let quantity = container.resources.requests.get(POD_IPS);
    quantity.and_then(|quantity| quantity.parse().ok()).unwrap_or(0)
}

berth_kit::view_of!(ObservedPod, Pod);

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn facts(spec: Value, status: Value) -> PodFacts {
        let pod = json!({"metadata": {"name": "web", "uid": "u"}, "spec": spec, "status": status});
        serde_json::from_value::<ObservedPod>(pod).unwrap().facts()
    }

    #[test]
    fn a_pod_on_the_host_or_finished_needs_no_ip() {
        assert!(facts(json!({}), json!({})).needs_ip);
        assert!(!facts(json!({"hostNetwork": true}), json!({"phase": "Running"})).needs_ip);
        for phase in ["Succeeded", "Failed"] {
            assert!(!facts(json!({}), json!({"phase": phase})).needs_ip, "{phase}");
        }
    }

    #[test]
    fn a_pod_asks_with_all_of_its_containers() {
        let asks = |amount: &str| json!({"resources": {"requests": {"berth.dev/pod-ips": amount, "cpu": "1"}}});
        let spec = json!({"containers": [asks("1"), {"resources": {}}, asks("2")], "nodeName": ""});
        let facts = facts(spec, json!({"nominatedNodeName": "n1"}));
        assert_eq!(
            (facts.asks, facts.node, facts.nominated.as_deref()),
            (3, None, Some("n1"))
        );
    }
}
