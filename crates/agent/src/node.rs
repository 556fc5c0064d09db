//! The agent's own Node, as far as the agent needs it.

use berth_api::ObservedNode;
use k8s_openapi::api::core::v1::ObjectReference;

use crate::availability::ObservedCondition;
use crate::machine::Machine;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnNode {
    /// The machine that the Node reports.
    pub machine: Machine,
    /// The most pods that the node runs. `None`: not known.
    pub allocatable_pods: Option<u64>,
    /// The condition that says whether pods can get addresses.
    pub condition: Option<ObservedCondition>,
}

impl OwnNode {
    pub fn read(node: &ObservedNode) -> Self {
        Self {
            machine: Machine::of(node.machine()),
            allocatable_pods: node.allocatable().pods,
            condition: ObservedCondition::of(node),
        }
    }
}

/// The reference to a Node for its events.
pub fn reference(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        // Kubelets use the name as the UID here, and kubectl looks for it.
        uid: Some(name.to_owned()),
        ..ObjectReference::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_most_pods_are_read_and_what_is_no_number_is_not_known() {
        let pods = |status| {
            let node: ObservedNode = serde_json::from_value(json!({ "status": status })).unwrap();
            OwnNode::read(&node).allocatable_pods
        };
        assert_eq!(pods(json!({"allocatable": {"pods": "110"}})), Some(110));
        assert_eq!(pods(json!({"allocatable": {"pods": "many"}})), None);
        assert_eq!(pods(json!({"capacity": {"pods": "110"}})), None);
        assert_eq!(pods(json!({})), None);
    }
}
