//! What a node's row says.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cell::{AGE, Column, NAME, list, or, text};

pub const COLUMNS: &[Column] = &[
    NAME,
    Column::made("Status", status),
    Column::made("Roles", roles),
    AGE,
    Column::text("Version", "/status/nodeInfo/kubeletVersion"),
    Column::made("Internal-IP", |node, _| address(node, "InternalIP")).wide(),
    Column::made("External-IP", |node, _| address(node, "ExternalIP")).wide(),
    Column::text_or("OS-Image", "/status/nodeInfo/osImage", "<unknown>").wide(),
    Column::made("Kernel-Version", kernel).wide(),
    Column::text_or(
        "Container-Runtime",
        "/status/nodeInfo/containerRuntimeVersion",
        "<unknown>",
    )
    .wide(),
];

fn status(node: &Value, _: Timestamp) -> Value {
    let ready = list(node, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == "Ready");
    let ready = match ready.map(|condition| text(condition, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    if node["spec"]["unschedulable"] == true {
        json!(format!("{ready},SchedulingDisabled"))
    } else {
        json!(ready)
    }
}

fn address(node: &Value, kind: &str) -> Value {
    let found = list(node, "/status/addresses")
        .iter()
        .find(|address| text(address, "/type") == kind);
    json!(found.map_or("<none>", |address| text(address, "/address")))
}

/// The kernel's version, and for which processor where that is known.
fn kernel(node: &Value, _: Timestamp) -> Value {
    match (
        text(node, "/status/nodeInfo/kernelVersion"),
        text(node, "/status/nodeInfo/architecture"),
    ) {
        ("", _) => json!("<unknown>"),
        (version, "") => json!(version),
        (version, architecture) => json!(format!("{version} ({architecture})")),
    }
}

fn roles(node: &Value, _: Timestamp) -> Value {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let roles: BTreeSet<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            None if key == "kubernetes.io/role" => value.as_str(),
            role => role,
        })
        .filter(|role| !role.is_empty())
        .collect();
    json!(or(&Vec::from_iter(roles).join(","), "<none>"))
}

#[cfg(test)]
mod tests {
    use super::super::cell::cells;
    use super::*;

    const NOW: &str = "2026-01-02T00:00:00Z";

    #[test]
    fn a_node_shows_how_it_is_and_what_it_is() {
        let node = json!({
            "metadata": {
                "name": "n",
                "creationTimestamp": "2026-01-01T00:00:00Z",
                "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "boss", "a": "b"},
            },
            "spec": {"unschedulable": true},
            "status": {
                "conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "10.0.0.1"}],
                "nodeInfo": {"kubeletVersion": "v1.36.4", "osImage": "Os", "kernelVersion": "6.1", "architecture": "amd64"},
            },
        });
        assert_eq!(
            json!(cells(COLUMNS, &node, NOW.parse().unwrap())),
            json!([
                "n",
                "Ready,SchedulingDisabled",
                "boss,worker",
                "24h",
                "v1.36.4",
                "10.0.0.1",
                "<none>",
                "Os",
                "6.1 (amd64)",
                "<unknown>"
            ])
        );
    }

    #[test]
    fn a_node_that_says_nothing_of_itself_is_unknown() {
        let status = |conditions: Value| {
            cells(
                COLUMNS,
                &json!({"status": {"conditions": conditions}}),
                NOW.parse().unwrap(),
            )[1]
            .clone()
        };
        assert_eq!(status(json!([])), "Unknown");
        assert_eq!(status(json!([{"type": "Ready", "status": "Unknown"}])), "NotReady");
    }
}
