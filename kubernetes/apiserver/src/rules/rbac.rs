//! Roles and their bindings, of a namespace or of the cluster.

use berth_apimachinery::columns::{self, AGE, Column, NAME};
use berth_apimachinery::status::{FieldError, Path};
use serde_json::{Value, json};

use super::defaults::{each, fill, fill_if_there};
use super::{Errors, list, one_of, text};

pub const GROUP: &str = "rbac.authorization.k8s.io";

pub fn check_role(object: &Value, errors: &mut Errors) {
    for (index, rule) in list(&object["rules"]) {
        let path = Path::new("rules").index(index);
        let empty = |field: &str| rule[field].as_array().is_none_or(Vec::is_empty);
        if empty("verbs") {
            errors.push(FieldError::required(
                path.child("verbs"),
                "verbs must contain at least one value",
            ));
        }
        if empty("nonResourceURLs") {
            for field in ["apiGroups", "resources"].into_iter().filter(|field| empty(field)) {
                let detail = format!("resource rules must supply at least one {field}");
                errors.push(FieldError::required(path.child(field), detail));
            }
        }
    }
}

pub fn default_binding(object: &mut Value) {
    fill_if_there(object, "roleRef", &json!({"apiGroup": GROUP}));
    each(object, "subjects").for_each(|subject| {
        if subject["kind"] != "ServiceAccount" {
            fill(subject, &json!({"apiGroup": GROUP}));
        }
    });
}

/// `roles`: the kinds of role that it can bind.
pub fn check_binding(object: &Value, roles: &[&str], errors: &mut Errors) {
    let path = Path::new("roleRef");
    one_of(&object["roleRef"], "kind", roles, &path, errors);
    if text(&object["roleRef"], "name").is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    }
    for (index, subject) in list(&object["subjects"]) {
        let path = Path::new("subjects").index(index);
        one_of(subject, "kind", &["ServiceAccount", "User", "Group"], &path, errors);
        if text(subject, "name").is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
        }
    }
}

pub fn check_binding_change(new: &Value, old: Option<&Value>, errors: &mut Errors) {
    if old.is_some_and(|old| new["roleRef"] != old["roleRef"]) {
        let value = new["roleRef"].clone();
        errors.push(FieldError::invalid(
            Path::new("roleRef"),
            value,
            "cannot change roleRef",
        ));
    }
}

pub const BINDING_COLUMNS: &[Column] = &[
    NAME,
    Column::made("Role", |binding, _| {
        json!(format!(
            "{}/{}",
            columns::text(binding, "/roleRef/kind"),
            columns::text(binding, "/roleRef/name")
        ))
    }),
    AGE,
    Column::made("Users", |binding, _| subjects(binding, "User")).wide(),
    Column::made("Groups", |binding, _| subjects(binding, "Group")).wide(),
    Column::made("ServiceAccounts", |binding, _| subjects(binding, "ServiceAccount")).wide(),
];

fn subjects(binding: &Value, kind: &str) -> Value {
    let of_kind = columns::list(binding, "/subjects")
        .iter()
        .filter(|subject| columns::text(subject, "/kind") == kind);
    let shown = of_kind.map(|subject| match kind {
        "ServiceAccount" => format!(
            "{}/{}",
            columns::text(subject, "/namespace"),
            columns::text(subject, "/name")
        ),
        _ => columns::text(subject, "/name").to_owned(),
    });
    json!(shown.collect::<Vec<_>>().join(", "))
}
