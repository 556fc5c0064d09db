//! Kinds that make pods from a template: a selector, a template, a count.

use berth_apimachinery::columns::{self, Column, or};
use berth_apimachinery::metadata;
use berth_apimachinery::selectors::Labels;
use berth_apimachinery::status::{FieldError, Path};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde::Deserialize;
use serde_json::{Value, json};

use super::defaults::fill;
use super::{Errors, pod_template};

pub fn default_rolling(strategy: &mut Value, parameters: &Value) {
    fill(strategy, &json!({"type": "RollingUpdate"}));
    if strategy["type"] == "RollingUpdate" {
        fill(&mut strategy["rollingUpdate"], parameters);
    }
}

pub fn default_template(spec: &mut Value) {
    if spec["template"].is_object() {
        pod_template::default(&mut spec["template"]["spec"]);
    }
}

pub fn check(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let spec = &object["spec"];
    let path = Path::new("spec");
    if spec["replicas"].as_i64().is_some_and(|replicas| replicas < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(
            path.child("replicas"),
            spec["replicas"].clone(),
            detail,
        ));
    }
    check_selector(spec, &path, errors);
    let template = path.child("template");
    pod_template::check(&spec["template"]["spec"], &template.child("spec"), errors);
    let policy = &spec["template"]["spec"]["restartPolicy"];
    if policy.is_string() && policy != "Always" {
        let field = template.child("spec").child("restartPolicy");
        errors.push(FieldError::not_supported(field, policy, &["Always"]));
    }
    if old.is_some_and(|old| spec["selector"] != old["spec"]["selector"]) {
        errors.push(FieldError::immutable(path.child("selector"), &spec["selector"]));
    }
}

/// A selector must match the labels of the template.
pub fn check_selector(spec: &Value, path: &Path, errors: &mut Errors) {
    let selector = &spec["selector"];
    let labels = &spec["template"]["metadata"]["labels"];
    let empty = |name: &str| match &selector[name] {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => true,
    };
    let mismatch = || {
        let field = path.child("template").child("metadata").child("labels");
        FieldError::invalid(field, labels.clone(), "`selector` does not match template `labels`")
    };
    if selector.is_null() {
        errors.push(FieldError::required(path.child("selector"), ""));
        errors.push(mismatch());
    } else if empty("matchLabels") && empty("matchExpressions") {
        let detail = "empty selector is invalid for deployment";
        errors.push(FieldError::invalid(path.child("selector"), selector.clone(), detail));
    } else if !selects(selector, labels) {
        errors.push(mismatch());
    }
    let field = path.child("template").child("metadata").child("labels");
    metadata::check_labels(labels, &field, errors);
}

fn selects(selector: &Value, labels: &Value) -> bool {
    let parsed = serde_json::from_value(selector.clone()).ok();
    let selector = parsed.and_then(|selector| Labels::of(&selector).ok());
    selector.is_some_and(|selector| selector.matches(|key| labels[key].as_str()))
}

pub const CONTAINERS: Column =
    Column::made("Containers", |object, _| of_containers(object, "/name")).wide();
pub const IMAGES: Column =
    Column::made("Images", |object, _| of_containers(object, "/image")).wide();
pub const SELECTOR: Column = Column::made("Selector", selector).wide();

fn of_containers(object: &Value, field: &str) -> Value {
    let containers = columns::list(object, "/spec/template/spec/containers").iter();
    json!(
        containers
            .map(|container| columns::text(container, field))
            .collect::<Vec<_>>()
            .join(",")
    )
}

fn selector(object: &Value, _: Timestamp) -> Value {
    let given = object
        .pointer("/spec/selector")
        .and_then(|given| LabelSelector::deserialize(given).ok());
    let labels = given.and_then(|given| Labels::of(&given).ok()).unwrap_or_default();
    json!(or(&labels.to_string(), "<none>"))
}
