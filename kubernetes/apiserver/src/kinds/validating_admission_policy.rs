//! Admission policies and their bindings, as objects: nothing here evaluates them. Their shape is
//! checked, their expressions are not compiled.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Errors, list, pod, text};
use berth_apimachinery::names;
use berth_apimachinery::status::{FieldError, FieldProblem, Path};

pub fn check(policy: &Value, errors: &mut Errors) {
    let spec = &policy["spec"];
    let path = Path::new("spec");
    pod::one_of(spec, "failurePolicy", &["Fail", "Ignore"], &path, errors);
    let constraints = path.child("matchConstraints");
    if spec["matchConstraints"].is_null() {
        errors.push(FieldError::required(constraints, ""));
    } else {
        check_matching(&spec["matchConstraints"], &constraints, errors);
        if is_empty(&spec["matchConstraints"], "resourceRules") {
            errors.push(FieldError::required(constraints.child("resourceRules"), ""));
        }
    }
    if !spec["paramKind"].is_null() {
        need(
            &spec["paramKind"],
            &["apiVersion", "kind"],
            &path.child("paramKind"),
            errors,
        );
    }
    for (field, needed) in [
        ("matchConditions", &["expression", "name"][..]),
        ("variables", &["name", "expression"]),
        ("validations", &["expression"]),
        ("auditAnnotations", &["key", "valueExpression"]),
    ] {
        for (index, item) in list(&spec[field]) {
            need(item, needed, &path.child(field).index(index), errors);
        }
    }
    if is_empty(spec, "validations") && is_empty(spec, "auditAnnotations") {
        let detail = "validations or auditAnnotations must contain at least one item";
        for field in ["validations", "auditAnnotations"] {
            errors.push(FieldError::required(path.child(field), detail));
        }
    }
    let reasons = ["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];
    for (index, validation) in list(&spec["validations"]) {
        let path = path.child("validations").index(index);
        pod::one_of(validation, "reason", &reasons, &path, errors);
    }
}

pub fn check_binding(binding: &Value, errors: &mut Errors) {
    let spec = &binding["spec"];
    let path = Path::new("spec");
    let name = text(spec, "policyName");
    if name.is_empty() {
        errors.push(FieldError::required(path.child("policyName"), ""));
    } else if let Some(problem) = names::subdomain(name) {
        errors.push(FieldError::invalid(path.child("policyName"), name.into(), problem));
    }
    if !spec["matchResources"].is_null() {
        check_matching(&spec["matchResources"], &path.child("matchResources"), errors);
    }
    check_parameter(&spec["paramRef"], &path.child("paramRef"), errors);
    check_actions(&spec["validationActions"], &path.child("validationActions"), errors);
}

fn check_parameter(reference: &Value, path: &Path, errors: &mut Errors) {
    if reference.is_null() {
        return;
    }
    let named = !text(reference, "name").is_empty();
    match (named, !reference["selector"].is_null()) {
        (false, false) => {
            let detail = "one of name or selector must be specified";
            errors.push(FieldError::required(path.clone(), detail));
        }
        (true, true) => {
            for field in ["name", "selector"] {
                let detail = "name and selector are mutually exclusive";
                errors.push(FieldError::forbidden(path.child(field), detail));
            }
        }
        _ => {}
    }
    need(reference, &["parameterNotFoundAction"], path, errors);
    if !text(reference, "parameterNotFoundAction").is_empty() {
        pod::one_of(reference, "parameterNotFoundAction", &["Deny", "Allow"], path, errors);
    }
}

fn check_actions(actions: &Value, path: &Path, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, action) in list(actions) {
        let name = action.as_str().unwrap_or_default();
        let problem = if !["Audit", "Deny", "Warn"].contains(&name) {
            Some((
                FieldProblem::NotSupported,
                r#"supported values: "Audit", "Deny", "Warn""#,
            ))
        } else if !seen.insert(name) {
            Some((FieldProblem::Duplicate, ""))
        } else {
            None
        };
        if let Some((problem, detail)) = problem {
            errors.push(FieldError::new(
                problem,
                path.index(index),
                Some(action.clone()),
                detail,
            ));
        }
    }
    if seen.contains("Deny") && seen.contains("Warn") {
        let detail = "must not contain both Deny and Warn: they say the same to the client";
        errors.push(FieldError::invalid(path.clone(), actions.clone(), detail));
    }
    if actions.as_array().is_none_or(Vec::is_empty) {
        errors.push(FieldError::required(
            path.clone(),
            "at least one validation action is required",
        ));
    }
}

fn check_matching(matching: &Value, path: &Path, errors: &mut Errors) {
    pod::one_of(matching, "matchPolicy", &["Equivalent", "Exact"], path, errors);
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
            let detail = r#"supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE""#;
            let field = path.child("operations").index(index);
            errors.push(FieldError::new(
                FieldProblem::NotSupported,
                field,
                Some(operation.clone()),
                detail,
            ));
        }
    }
    pod::one_of(rule, "scope", &["*", "Cluster", "Namespaced"], path, errors);
}

/// Texts that can't be empty.
fn need(object: &Value, fields: &[&str], path: &Path, errors: &mut Errors) {
    for field in fields.iter().filter(|field| text(object, field).trim().is_empty()) {
        errors.push(FieldError::required(path.child(field), ""));
    }
}

fn is_empty(object: &Value, field: &str) -> bool {
    object[field].as_array().is_none_or(Vec::is_empty)
}
