//! The gate: adds our entry to every new Machine, so that no machine is built before it has its
//! network.
//!
//! In a cluster it is a MutatingAdmissionPolicy, which lives in the API server and holds while
//! Berth is down: [`POLICY`]. Where the API server has no such policies, a webhook asks [`admit`],
//! see [`crate::webhook`]. The embedded API gets [`admit`] passed in.

use serde_json::{Value, json};

use crate::machine::{INITIALIZER, INITIALIZERS, Initializers, Shape};

/// The documents to be applied to a cluster that has Machines.
pub const POLICY: &str = include_str!("../../../deploy/machines/gate.yaml");

/// Mutating admission of the embedded API: the same as the policy.
pub fn admit(group: &str, plural: &str, object: &mut Value) {
    if !is_machine(group, plural) {
        return;
    }
    let before = object["metadata"]["annotations"][INITIALIZERS].as_str();
    let list = Initializers::parse(before.unwrap_or_default());
    if list.contains(INITIALIZER) {
        return;
    }
    if !object["metadata"]["annotations"].is_object() {
        object["metadata"]["annotations"] = json!({});
    }
    object["metadata"]["annotations"][INITIALIZERS] = json!(list.with(INITIALIZER).to_annotation());
}

/// Of either shape.
pub fn is_machine(group: &str, plural: &str) -> bool {
    plural == "machines" && Shape::ALL.iter().any(|shape| shape.group() == group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_machine_is_gated_once_and_others_keep_their_place() {
        let gated = |annotations: Value| {
            let mut object = json!({"metadata": {"name": "m", "annotations": annotations}});
            admit("cluster.k8s.io", "machines", &mut object);
            admit("cluster.k8s.io", "machines", &mut object);
            object["metadata"]["annotations"].clone()
        };
        assert_eq!(gated(Value::Null), json!({INITIALIZERS: "ipam.berth.dev"}));
        assert_eq!(
            gated(json!({"a": "b"})),
            json!({"a": "b", INITIALIZERS: "ipam.berth.dev"})
        );
        assert_eq!(
            gated(json!({INITIALIZERS: "x"})),
            json!({INITIALIZERS: "x,ipam.berth.dev"})
        );
    }

    #[test]
    fn nothing_else_is_touched() {
        let mut object = json!({"metadata": {"name": "m"}});
        admit("apps", "deployments", &mut object);
        admit("machine.k8s.io", "machinesets", &mut object);
        assert_eq!(object, json!({"metadata": {"name": "m"}}));
    }
}
