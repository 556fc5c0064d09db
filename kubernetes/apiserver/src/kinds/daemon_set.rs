//! DaemonSets, as objects: nothing makes their pods.

use berth_apimachinery::columns::{AGE, Column, NAME, labels};
use k8s_openapi::api::apps::v1::DaemonSet;
use serde_json::json;

use super::built_in::{BuiltIn, schema_of};
use crate::rules::defaults::fill;
use crate::rules::workload::{self, CONTAINERS, IMAGES, SELECTOR};

pub static KIND: BuiltIn = BuiltIn {
    group: "apps",
    kind: "DaemonSet",
    plural: "daemonsets",
    short_names: &["ds"],
    categories: &["all"],
    status: true,
    generation: true,
    schema: schema_of::<DaemonSet>,
    default: |object| {
        let spec = &mut object["spec"];
        fill(spec, &json!({"revisionHistoryLimit": 10, "updateStrategy": {}}));
        let parameters = json!({"maxSurge": 0, "maxUnavailable": 1});
        workload::default_rolling(&mut spec["updateStrategy"], &parameters);
        workload::default_template(spec);
    },
    initial_status: || {
        json!({
            "currentNumberScheduled": 0,
            "desiredNumberScheduled": 0,
            "numberMisscheduled": 0,
            "numberReady": 0,
        })
    },
    check: |object, change, errors| workload::check(object, change.old, errors),
    columns: &[
        NAME,
        Column::count("Desired", "/status/desiredNumberScheduled"),
        Column::count("Current", "/status/currentNumberScheduled"),
        Column::count("Ready", "/status/numberReady"),
        Column::count("Up-to-date", "/status/updatedNumberScheduled"),
        Column::count("Available", "/status/numberAvailable"),
        Column::made("Node Selector", |object, _| {
            labels(object, "/spec/template/spec/nodeSelector")
        }),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    ..BuiltIn::PLAIN
};
