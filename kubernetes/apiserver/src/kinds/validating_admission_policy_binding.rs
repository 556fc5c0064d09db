//! ValidatingAdmissionPolicyBindings, as objects.

use std::collections::BTreeSet;

use berth_apimachinery::columns::{self, AGE, Column, NAME, or};
use berth_apimachinery::names;
use berth_apimachinery::status::{FieldError, Path};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicyBinding;
use serde_json::{Value, json};

use super::built_in::{BuiltIn, Change, schema_of};
use crate::rules::match_resources::{self, need};
use crate::rules::{Errors, list, one_of, text};

pub static KIND: BuiltIn = BuiltIn {
    group: match_resources::GROUP,
    kind: "ValidatingAdmissionPolicyBinding",
    plural: "validatingadmissionpolicybindings",
    categories: &["api-extensions"],
    namespaced: false,
    generation: true,
    schema: schema_of::<ValidatingAdmissionPolicyBinding>,
    default: |object| match_resources::default(&mut object["spec"], "matchResources"),
    check,
    columns: COLUMNS,
    ..BuiltIn::PLAIN
};

const COLUMNS: &[Column] = &[
    NAME,
    Column::text("PolicyName", "/spec/policyName"),
    Column::made("ParamRef", |binding, _| {
        let namespace = or(columns::text(binding, "/spec/paramRef/namespace"), "*");
        match columns::text(binding, "/spec/paramRef/name") {
            "" => binding
                .pointer("/spec/paramRef/selector")
                .map_or(json!("<unset>"), |by| json!(by.to_string())),
            name => json!(format!("{namespace}/{name}")),
        }
    }),
    AGE,
];

fn check(binding: &Value, _: &Change<'_>, errors: &mut Errors) {
    let spec = &binding["spec"];
    let path = Path::new("spec");
    let name = text(spec, "policyName");
    if name.is_empty() {
        errors.push(FieldError::required(path.child("policyName"), ""));
    } else if let Some(problem) = names::subdomain(name) {
        errors.push(FieldError::invalid(path.child("policyName"), name.into(), problem));
    }
    if !spec["matchResources"].is_null() {
        match_resources::check(&spec["matchResources"], &path.child("matchResources"), errors);
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
        one_of(reference, "parameterNotFoundAction", &["Deny", "Allow"], path, errors);
    }
}

fn check_actions(actions: &Value, path: &Path, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for (index, action) in list(actions) {
        let name = action.as_str().unwrap_or_default();
        let supported = ["Audit", "Deny", "Warn"];
        if !supported.contains(&name) {
            errors.push(FieldError::not_supported(path.index(index), action, &supported));
        } else if !seen.insert(name) {
            errors.push(FieldError::duplicate(path.index(index), action.clone(), ""));
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
