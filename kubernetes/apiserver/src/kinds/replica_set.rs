//! ReplicaSets.

use berth_apimachinery::columns::{AGE, Column, NAME};
use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::json;

use super::built_in::{BuiltIn, schema_of};
use crate::rules::defaults::fill;
use crate::rules::workload::{self, CONTAINERS, IMAGES, SELECTOR};

pub static KIND: BuiltIn = BuiltIn {
    group: "apps",
    kind: "ReplicaSet",
    plural: "replicasets",
    short_names: &["rs"],
    categories: &["all"],
    status: true,
    scale: true,
    generation: true,
    schema: schema_of::<ReplicaSet>,
    default: |object| {
        fill(&mut object["spec"], &json!({"replicas": 1}));
        workload::default_template(&mut object["spec"]);
    },
    initial_status: || json!({"replicas": 0}),
    check: |object, change, errors| workload::check(object, change.old, errors),
    columns: &[
        NAME,
        Column::count("Desired", "/spec/replicas"),
        Column::count("Current", "/status/replicas"),
        Column::count("Ready", "/status/readyReplicas"),
        AGE,
        CONTAINERS,
        IMAGES,
        SELECTOR,
    ],
    ..BuiltIn::PLAIN
};
