//! CustomResourceDefinitions. The kinds that they define are in `custom_resource`.

use berth_apimachinery::definition;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

use super::built_in::{BuiltIn, Change, Deletion, schema_of};

/// Where definitions are stored.
pub const TABLE: &str = "customresourcedefinitions.apiextensions.k8s.io";

/// Holds a definition until its resources are gone.
pub const CONTENT_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

pub static KIND: BuiltIn = BuiltIn {
    group: "apiextensions.k8s.io",
    kind: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
    short_names: &["crd", "crds"],
    categories: &["api-extensions"],
    namespaced: false,
    status: true,
    generation: true,
    schema: schema_of::<CustomResourceDefinition>,
    admit_create: definition::set_defaults,
    admit_update: definition::set_defaults,
    check: |object, change, errors| {
        if needs_check(object, change) {
            errors.extend(definition::check(object, change.old));
        }
    },
    finish: |object, change| {
        if needs_check(object, change) {
            definition::established(object, change.now);
        }
    },
    needs_resource_version: true,
    status_updates_metadata: false,
    deletion: Deletion {
        content_finalizer: Some(CONTENT_FINALIZER),
        ..Deletion::PLAIN
    },
    ..BuiltIn::PLAIN
};

/// Compiling a schema is slow, and an unchanged one has been checked before.
fn needs_check(object: &Value, change: &Change<'_>) -> bool {
    let is_deleting = |old: &Value| !old["metadata"]["deletionTimestamp"].is_null();
    change.subresource.is_empty()
        && change
            .old
            .is_none_or(|old| object["spec"] != old["spec"] && !is_deleting(old))
}
