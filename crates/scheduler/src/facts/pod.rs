//! What accounting keeps of a Pod: with 150,000 Pods, whole objects would be most of the memory.

use berth_api::ObservedPod;
use berth_api::names::POD_IPS;

/// What a pod means to accounting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// It is not on the host's network and not finished. A pod that is being deleted keeps its
    /// address until it is gone.
    pub needs_ip: bool,
    /// How much of the extended resource it asks for.
    pub asks: u64,
    pub node: Option<String>,
    /// `status.nominatedNodeName`: where it will probably go.
    pub nominated: Option<String>,
}

impl PodFacts {
    pub fn of(pod: &ObservedPod) -> Self {
        let is_finished = pod.phase().is_finished();
        // The API server lets only whole numbers in.
        let asked = pod.requests(POD_IPS).filter_map(|quantity| quantity.parse().ok());
        Self {
            needs_ip: pod.needs_address(),
            asks: if is_finished {
                0
            } else {
                asked.fold(0, u64::saturating_add)
            },
            node: pod.node().map(str::to_owned),
            nominated: pod.nominated_node().map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn facts(spec: Value, status: Value) -> PodFacts {
        let pod = json!({"metadata": {"name": "web", "uid": "u"}, "spec": spec, "status": status});
        PodFacts::of(&serde_json::from_value(pod).unwrap())
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
