//! The requests that an admission policy or its binding matches.

use berth_apimachinery::status::{FieldError, Path};
use serde_json::{Value, json};

use super::defaults::fill;
use super::{Errors, list, one_of, text};

pub const GROUP: &str = "admissionregistration.k8s.io";

pub fn default(spec: &mut Value, name: &str) {
    let Some(constraints) = spec.get_mut(name).filter(|constraints| constraints.is_object()) else {
        return;
    };
    fill(
        constraints,
        &json!({"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}),
    );
    for rules in ["resourceRules", "excludeResourceRules"] {
        let rules = constraints.get_mut(rules).and_then(Value::as_array_mut);
        for rule in rules.into_iter().flatten() {
            fill(rule, &json!({"scope": "*"}));
        }
    }
}

pub fn check(matching: &Value, path: &Path, errors: &mut Errors) {
    one_of(matching, "matchPolicy", &["Equivalent", "Exact"], path, errors);
    for field in ["resourceRules", "excludeResourceRules"] {
        for (index, rule) in list(&matching[field]) {
            check_rule(rule, &path.child(field).index(index), errors);
        }
    }
}

const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];

fn check_rule(rule: &Value, path: &Path, errors: &mut Errors) {
    for field in ["operations", "apiGroups", "apiVersions", "resources"] {
        if is_empty(rule, field) {
            errors.push(FieldError::required(path.child(field), ""));
        }
        let several = rule[field].as_array().is_some_and(|given| given.len() > 1);
        if field != "resources" && several && list(&rule[field]).any(|(_, given)| given == "*") {
            let detail = "if '*' is present, must not specify others";
            errors.push(FieldError::invalid(path.child(field), rule[field].clone(), detail));
        }
    }
    for (index, operation) in list(&rule["operations"]) {
        if !OPERATIONS.contains(&operation.as_str().unwrap_or_default()) {
            let field = path.child("operations").index(index);
            errors.push(FieldError::not_supported(field, operation, OPERATIONS));
        }
    }
    one_of(rule, "scope", &["*", "Cluster", "Namespaced"], path, errors);
}

/// Texts that can't be empty.
pub fn need(object: &Value, fields: &[&str], path: &Path, errors: &mut Errors) {
    for field in fields.iter().filter(|field| text(object, field).trim().is_empty()) {
        errors.push(FieldError::required(path.child(field), ""));
    }
}

pub fn is_empty(object: &Value, field: &str) -> bool {
    object[field].as_array().is_none_or(Vec::is_empty)
}
