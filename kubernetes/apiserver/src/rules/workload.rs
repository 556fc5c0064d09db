//! Deployments, ReplicaSets and DaemonSets: a selector, a template, a count.

use serde_json::Value;

use super::{Errors, pod};
use berth_apimachinery::selectors::Labels;
use berth_apimachinery::status::{FieldError, FieldProblem, Path};

pub fn check(object: &Value, errors: &mut Errors) {
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
    check_strategy(&spec["strategy"], &path.child("strategy"), errors);
    let template = path.child("template");
    super::metadata::check_labels(labels, &template.child("metadata").child("labels"), errors);
    pod::check_spec(&spec["template"]["spec"], &template.child("spec"), errors);
    let policy = &spec["template"]["spec"]["restartPolicy"];
    if policy.is_string() && policy != "Always" {
        let field = template.child("spec").child("restartPolicy");
        let detail = "supported values: \"Always\"";
        errors.push(FieldError::new(
            FieldProblem::NotSupported,
            field,
            Some(policy.clone()),
            detail,
        ));
    }
}

/// How a Deployment goes from one template to the next.
fn check_strategy(strategy: &Value, path: &Path, errors: &mut Errors) {
    match strategy["type"].as_str() {
        None | Some("Recreate") => {}
        Some("RollingUpdate") => {
            // As text or as number, nothing is nothing.
            let none = |name: &str| matches!(strategy["rollingUpdate"][name].to_string().as_str(), "0" | "\"0%\"");
            if none("maxSurge") && none("maxUnavailable") {
                let field = path.child("rollingUpdate").child("maxUnavailable");
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.push(FieldError::invalid(field, 0.into(), detail));
            }
        }
        Some(_) => {
            let detail = r#"supported values: "Recreate", "RollingUpdate""#;
            errors.push(FieldError::new(
                FieldProblem::NotSupported,
                path.clone(),
                Some(strategy.clone()),
                detail,
            ));
        }
    }
}

fn selects(selector: &Value, labels: &Value) -> bool {
    let parsed = serde_json::from_value(selector.clone()).ok();
    let selector = parsed.and_then(|selector| Labels::of(&selector).ok());
    selector.is_some_and(|selector| selector.matches(|key| labels[key].as_str()))
}

pub fn changed(new: &Value, old: &Value, errors: &mut Errors) {
    if new["spec"]["selector"] != old["spec"]["selector"] {
        let value = new["spec"]["selector"].clone();
        errors.push(FieldError::invalid(
            Path::new("spec.selector"),
            value,
            "field is immutable",
        ));
    }
}
