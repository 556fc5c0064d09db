//! The columns of the built-in kinds.

use serde_json::{Value, json};

use super::cell::{AGE, Column, NAME, list, or, text};
use super::{event, node, pod, service, workload};

/// A kind that is not listed shows its name and when it was made.
pub fn columns(group: &str, kind: &str) -> &'static [Column] {
    let listed = TABLES.iter().find(|(g, k, _)| *g == group && *k == kind);
    listed.map_or(PLAIN, |(_, _, columns)| *columns)
}

const PLAIN: &[Column] = &[
    NAME,
    Column::text("Created At", "/metadata/creationTimestamp").called("date"),
];

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

#[rustfmt::skip]
const TABLES: &[(&str, &str, &[Column])] = &[
    ("", "Pod", pod::COLUMNS),
    ("", "Node", node::COLUMNS),
    ("", "Namespace", &[NAME, Column::text("Status", "/status/phase"), AGE]),
    ("", "ConfigMap", &[NAME, Column::made("Data", |map, _| json!(entries(map, "/data") + entries(map, "/binaryData"))), AGE]),
    ("", "Secret", &[NAME, Column::text("Type", "/type"), Column::made("Data", |secret, _| json!(entries(secret, "/data"))), AGE]),
    ("", "ServiceAccount", &[NAME, AGE]),
    ("", "Service", service::COLUMNS),
    ("", "Event", event::COLUMNS),
    ("events.k8s.io", "Event", event::COLUMNS),
    ("apps", "Deployment", workload::DEPLOYMENT),
    ("apps", "ReplicaSet", workload::REPLICA_SET),
    ("apps", "DaemonSet", workload::DAEMON_SET),
    ("coordination.k8s.io", "Lease", &[NAME, Column::text("Holder", "/spec/holderIdentity"), AGE]),
    ("networking.k8s.io", "ServiceCIDR", &[NAME, Column::made("CIDRs", |object, _| cidrs(object)), AGE]),
    (ADMISSION, "ValidatingAdmissionPolicy", POLICY),
    (ADMISSION, "ValidatingAdmissionPolicyBinding", POLICY_BINDING),
    (RBAC, "RoleBinding", BINDING),
    (RBAC, "ClusterRoleBinding", BINDING),
];

fn entries(object: &Value, pointer: &str) -> usize {
    let map = object.pointer(pointer).and_then(Value::as_object);
    map.map_or(0, serde_json::Map::len)
}

fn cidrs(object: &Value) -> Value {
    let cidrs: Vec<&str> = list(object, "/spec/cidrs").iter().filter_map(Value::as_str).collect();
    json!(cidrs.join(","))
}

const POLICY: &[Column] = &[
    NAME,
    Column::made("Validations", |policy, _| {
        json!(list(policy, "/spec/validations").len())
    })
    .called("integer"),
    Column::made("ParamKind", |policy, _| match text(policy, "/spec/paramKind/kind") {
        "" => json!("<unset>"),
        kind => json!(format!("{}/{kind}", text(policy, "/spec/paramKind/apiVersion"))),
    }),
    AGE,
];

const POLICY_BINDING: &[Column] = &[
    NAME,
    Column::text("PolicyName", "/spec/policyName"),
    Column::made("ParamRef", |binding, _| {
        let namespace = or(text(binding, "/spec/paramRef/namespace"), "*");
        match text(binding, "/spec/paramRef/name") {
            "" => binding
                .pointer("/spec/paramRef/selector")
                .map_or(json!("<unset>"), |by| json!(by.to_string())),
            name => json!(format!("{namespace}/{name}")),
        }
    }),
    AGE,
];

const BINDING: &[Column] = &[
    NAME,
    Column::made("Role", |binding, _| {
        json!(format!(
            "{}/{}",
            text(binding, "/roleRef/kind"),
            text(binding, "/roleRef/name")
        ))
    }),
    AGE,
    Column::made("Users", |binding, _| subjects(binding, "User")).wide(),
    Column::made("Groups", |binding, _| subjects(binding, "Group")).wide(),
    Column::made("ServiceAccounts", |binding, _| subjects(binding, "ServiceAccount")).wide(),
];

fn subjects(binding: &Value, kind: &str) -> Value {
    let of_kind = list(binding, "/subjects")
        .iter()
        .filter(|subject| text(subject, "/kind") == kind);
    let shown = of_kind.map(|subject| match kind {
        "ServiceAccount" => format!("{}/{}", text(subject, "/namespace"), text(subject, "/name")),
        _ => text(subject, "/name").to_owned(),
    });
    json!(shown.collect::<Vec<_>>().join(", "))
}
