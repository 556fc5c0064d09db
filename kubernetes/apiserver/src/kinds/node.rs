//! Nodes, above all the fields for addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;

use berth_apimachinery::columns::{self, AGE, Column, NAME, or};
use berth_apimachinery::names;
use berth_apimachinery::selectors::SelectableField;
use berth_apimachinery::status::{FieldError, Path};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};

use super::built_in::{BuiltIn, schema_of};
use crate::rules::{Errors, list, one_of, text};

pub static KIND: BuiltIn = BuiltIn {
    kind: "Node",
    plural: "nodes",
    short_names: &["no"],
    namespaced: false,
    status: true,
    schema: schema_of::<Node>,
    default: |object| default_cidrs(&mut object["spec"]),
    initial_status,
    check: |object, change, errors| {
        check_spec(object, errors);
        if let Some(old) = change.old {
            check_change(object, old, errors);
        }
    },
    columns: COLUMNS,
    selectable: Some(SELECTABLE),
    ..BuiltIn::PLAIN
};

const SELECTABLE: &[SelectableField] = &[SelectableField::flag("spec.unschedulable")];

/// The first podCIDR is in `podCIDR` and in `podCIDRs`. A client that sets one sets both.
fn default_cidrs(spec: &mut Value) {
    let first = spec["podCIDRs"][0].clone();
    let one = spec["podCIDR"].clone();
    match (one.is_string(), first.is_string()) {
        (true, false) => spec["podCIDRs"] = json!([one]),
        (false, true) => spec["podCIDR"] = first,
        _ => {}
    }
    if spec.is_null() {
        *spec = json!({});
    }
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
}

fn initial_status() -> Value {
    json!({
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        "nodeInfo": {
            "architecture": "",
            "bootID": "",
            "containerRuntimeVersion": "",
            "kernelVersion": "",
            "kubeProxyVersion": "",
            "kubeletVersion": "",
            "machineID": "",
            "operatingSystem": "",
            "osImage": "",
            "systemUUID": "",
        },
    })
}

fn check_spec(node: &Value, errors: &mut Errors) {
    let spec = Path::new("spec");
    let cidrs: Vec<&str> = list(&node["spec"]["podCIDRs"])
        .filter_map(|(_, cidr)| cidr.as_str())
        .collect();
    let path = spec.child("podCIDRs");
    for (index, cidr) in cidrs.iter().enumerate() {
        if !is_cidr(cidr) {
            let detail = "must be a valid CIDR, such as 10.0.0.0/24";
            errors.push(FieldError::invalid(path.index(index), (*cidr).into(), detail));
        }
    }
    let families: Vec<bool> = cidrs.iter().map(|cidr| cidr.contains(':')).collect();
    if cidrs.len() > 2 || (cidrs.len() == 2 && families[0] == families[1]) {
        let detail = "may hold no more than one CIDR for each IP family";
        errors.push(FieldError::invalid(
            path.clone(),
            node["spec"]["podCIDRs"].clone(),
            detail,
        ));
    }
    let first = cidrs.first().copied().unwrap_or_default();
    if text(&node["spec"], "podCIDR") != first {
        let detail = "must be equal to the first value of spec.podCIDRs";
        errors.push(FieldError::invalid(path.index(0), first.into(), detail));
    }
    for (index, taint) in list(&node["spec"]["taints"]) {
        // kube-apiserver also reports taints below `metadata`, not `spec`.
        let path = Path::new("metadata").child("taints").index(index);
        let key = text(taint, "key");
        if let Some(problem) = names::qualified(key) {
            errors.push(FieldError::invalid(path.child("key"), key.into(), problem));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if text(taint, "effect").is_empty() {
            errors.push(FieldError::required(path.child("effect"), ""));
        }
        one_of(taint, "effect", &effects, &path, errors);
        let same = |(_, other): &(usize, &Value)| {
            other["key"] == taint["key"] && other["effect"] == taint["effect"]
        };
        if list(&node["spec"]["taints"]).take(index).any(|other| same(&other)) {
            let detail = "taints must be unique by key and effect pair";
            errors.push(FieldError::duplicate(path, taint.clone(), detail));
        }
    }
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else {
        return false;
    };
    let longest = match address.parse() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    length.parse::<u8>().is_ok_and(|length| length <= longest)
}

/// A node's podCIDRs can't change once set, because pods have addresses from them.
fn check_change(new: &Value, old: &Value, errors: &mut Errors) {
    let spec = Path::new("spec");
    if !old["spec"]["podCIDRs"].is_null() && new["spec"]["podCIDRs"] != old["spec"]["podCIDRs"] {
        let detail = "node updates may not change podCIDR except from \"\" to valid";
        errors.push(FieldError::forbidden(spec.child("podCIDRs"), detail));
    }
    let id = text(&old["spec"], "providerID");
    if !id.is_empty() && text(&new["spec"], "providerID") != id {
        let detail = "node updates may not change providerID except from \"\" to valid";
        errors.push(FieldError::forbidden(spec.child("providerID"), detail));
    }
}

const COLUMNS: &[Column] = &[
    NAME,
    Column::made("Status", status_word),
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

fn status_word(node: &Value, _: Timestamp) -> Value {
    let ready = columns::list(node, "/status/conditions")
        .iter()
        .find(|condition| columns::text(condition, "/type") == "Ready");
    let ready = match ready.map(|condition| columns::text(condition, "/status")) {
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
    let found = columns::list(node, "/status/addresses")
        .iter()
        .find(|address| columns::text(address, "/type") == kind);
    json!(found.map_or("<none>", |address| columns::text(address, "/address")))
}

/// The kernel's version, and its architecture where that is known.
fn kernel(node: &Value, _: Timestamp) -> Value {
    match (
        columns::text(node, "/status/nodeInfo/kernelVersion"),
        columns::text(node, "/status/nodeInfo/architecture"),
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
    use super::*;
    use berth_apimachinery::columns::cells;

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
