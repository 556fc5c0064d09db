//! ConfigMaps.

use berth_apimachinery::columns::{AGE, Column, NAME, entries};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

use super::built_in::{BuiltIn, schema_of};
use crate::rules::data;

pub static KIND: BuiltIn = BuiltIn {
    kind: "ConfigMap",
    plural: "configmaps",
    short_names: &["cm"],
    schema: schema_of::<ConfigMap>,
    check: |object, change, errors| {
        data::check(object, errors);
        data::check_change(object, change.old, errors);
    },
    columns: &[
        NAME,
        Column::made("Data", |map, _| {
            json!(entries(map, "/data") + entries(map, "/binaryData"))
        }),
        AGE,
    ],
    ..BuiltIn::PLAIN
};
