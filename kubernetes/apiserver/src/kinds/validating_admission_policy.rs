//! ValidatingAdmissionPolicies, as objects: nothing here evaluates them. Their shape is checked,
//! their expressions are not compiled.

use berth_apimachinery::columns::{self, AGE, Column, NAME};
use berth_apimachinery::status::{FieldError, Path};
use k8s_openapi::api::admissionregistration::v1::ValidatingAdmissionPolicy;
use serde_json::{Value, json};

use super::built_in::{BuiltIn, Change, schema_of};
use crate::rules::defaults::fill;
use crate::rules::match_resources::{self, is_empty, need};
use crate::rules::{Errors, list, one_of};

pub static KIND: BuiltIn = BuiltIn {
    group: match_resources::GROUP,
    kind: "ValidatingAdmissionPolicy",
    plural: "validatingadmissionpolicies",
    categories: &["api-extensions"],
    namespaced: false,
    status: true,
    generation: true,
    schema: schema_of::<ValidatingAdmissionPolicy>,
    default: |object| {
        fill(&mut object["spec"], &json!({"failurePolicy": "Fail"}));
        match_resources::default(&mut object["spec"], "matchConstraints");
    },
    check,
    columns: COLUMNS,
    ..BuiltIn::PLAIN
};

const COLUMNS: &[Column] = &[
    NAME,
    Column::made("Validations", |policy, _| {
        json!(columns::list(policy, "/spec/validations").len())
    })
    .called("integer"),
    Column::made("ParamKind", |policy, _| {
        match columns::text(policy, "/spec/paramKind/kind") {
            "" => json!("<unset>"),
            kind => json!(format!(
                "{}/{kind}",
                columns::text(policy, "/spec/paramKind/apiVersion")
            )),
        }
    }),
    AGE,
];

fn check(policy: &Value, _: &Change<'_>, errors: &mut Errors) {
    let spec = &policy["spec"];
    let path = Path::new("spec");
    one_of(spec, "failurePolicy", &["Fail", "Ignore"], &path, errors);
    let constraints = path.child("matchConstraints");
    if spec["matchConstraints"].is_null() {
        errors.push(FieldError::required(constraints, ""));
    } else {
        match_resources::check(&spec["matchConstraints"], &constraints, errors);
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
        one_of(validation, "reason", &reasons, &path, errors);
    }
}
