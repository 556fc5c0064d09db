//! Deployments.

use berth_apimachinery::columns::{AGE, Column, NAME, number};
use berth_apimachinery::metadata;
use berth_apimachinery::status::{FieldError, Path};
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::{Value, json};

use super::built_in::{BuiltIn, Change, schema_of};
use crate::rules::Errors;
use crate::rules::defaults::fill;
use crate::rules::workload::{self, CONTAINERS, IMAGES, SELECTOR};

pub static KIND: BuiltIn = BuiltIn {
    group: "apps",
    kind: "Deployment",
    plural: "deployments",
    short_names: &["deploy"],
    categories: &["all"],
    status: true,
    scale: true,
    generation: true,
    schema: schema_of::<Deployment>,
    default,
    check,
    bumps_generation: |new, live| {
        let annotations = |object: &Value| object["metadata"]["annotations"].clone();
        new["spec"] != live["spec"] || annotations(new) != annotations(live)
    },
    reset_on_status_update: |new, live| metadata::restore_field(new, live, "labels"),
    columns: &[
        NAME,
        Column::made("Ready", |deployment, _| {
            let ready = number(deployment, "/status/readyReplicas");
            json!(format!("{ready}/{}", number(deployment, "/spec/replicas")))
        }),
        Column::count("Up-to-date", "/status/updatedReplicas").called("string"),
        Column::count("Available", "/status/availableReplicas").called("string"),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    ..BuiltIn::PLAIN
};

fn default(object: &mut Value) {
    let spec = &mut object["spec"];
    let defaults = json!({
        "replicas": 1,
        "revisionHistoryLimit": 10,
        "progressDeadlineSeconds": 600,
        "strategy": {},
    });
    fill(spec, &defaults);
    let parameters = json!({"maxSurge": "25%", "maxUnavailable": "25%"});
    workload::default_rolling(&mut spec["strategy"], &parameters);
    workload::default_template(spec);
}

fn check(object: &Value, change: &Change<'_>, errors: &mut Errors) {
    workload::check(object, change.old, errors);
    check_strategy(&object["spec"]["strategy"], &Path::new("spec.strategy"), errors);
}

/// Checks how a Deployment replaces its pods.
fn check_strategy(strategy: &Value, path: &Path, errors: &mut Errors) {
    match strategy["type"].as_str() {
        None | Some("Recreate") => {}
        Some("RollingUpdate") => {
            // Both 0 and "0%" mean none.
            let parameters = &strategy["rollingUpdate"];
            let none = |name: &str| parameters[name] == 0 || parameters[name] == "0%";
            if none("maxSurge") && none("maxUnavailable") {
                let field = path.child("rollingUpdate").child("maxUnavailable");
                let detail = "may not be 0 when `maxSurge` is 0";
                errors.push(FieldError::invalid(field, 0.into(), detail));
            }
        }
        Some(_) => {
            let supported = ["Recreate", "RollingUpdate"];
            errors.push(FieldError::not_supported(path.clone(), strategy, &supported));
        }
    }
}
