//! The fields of `metadata` that belong to the server, and how they change from one state of an
//! object to the next.

use berth_apimachinery::status::{FieldError, Path};
use serde_json::{Value, json};

use crate::kinds::Kind;

/// A create ignores these fields if the client sends them.
pub const SERVER_OWNED: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "selfLink",
    "resourceVersion",
    "managedFields",
];

/// An update keeps the live values of these fields.
const KEPT_ON_UPDATE: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
    "namespace",
    "name",
    "generateName",
];

pub fn restore_server_fields(new: &mut Value, live: &Value) {
    if !new["metadata"].is_object() {
        new["metadata"] = json!({});
    }
    let Some(metadata) = new["metadata"].as_object_mut() else {
        return;
    };
    metadata.remove("selfLink");
    for &field in KEPT_ON_UPDATE {
        match live["metadata"].get(field) {
            Some(value) => drop(metadata.insert(field.to_owned(), value.clone())),
            None => drop(metadata.remove(field)),
        }
    }
}

/// Only a delete may set the deletion fields.
pub fn check_deletion_fields(new: &Value, live: &Value) -> Vec<FieldError> {
    let marks = [
        ("deletionTimestamp", "field is immutable"),
        (
            "deletionGracePeriodSeconds",
            "field is immutable; may only be changed via deletion",
        ),
    ];
    let is_forged =
        |field: &str| live["metadata"][field].is_null() && !new["metadata"][field].is_null();
    marks
        .into_iter()
        .filter(|(field, _)| is_forged(field))
        .map(|(field, detail)| {
            let value = new["metadata"][field].clone();
            FieldError::invalid(Path::new("metadata").child(field), value, detail)
        })
        .collect()
}

/// Whether the body contains this text. A cheap check before parsing.
pub fn mentions(body: &[u8], field: &str) -> bool {
    std::str::from_utf8(body).is_ok_and(|text| text.contains(field))
}

pub fn finalizers(object: &Value) -> Vec<&str> {
    let list = object["metadata"]["finalizers"].as_array();
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

pub fn set_finalizers(object: &mut Value, finalizers: &[String]) {
    if finalizers.is_empty() {
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("finalizers");
        }
    } else {
        object["metadata"]["finalizers"] = json!(finalizers);
    }
}

pub fn is_deleting(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_null()
}

/// Whether the object is marked as deleted and nothing holds it. An update that reaches this state
/// removes the object.
pub fn can_be_removed(kind: &Kind, object: &Value) -> bool {
    let grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
    is_deleting(object)
        && finalizers(object).is_empty()
        && grace.unwrap_or_default() == 0
        && !(kind.deletion().is_held)(object)
}

/// An object that is being deleted takes no new finalizers.
pub fn check_new_finalizers(new: &Value, live: &Value) -> Option<FieldError> {
    if !is_deleting(live) {
        return None;
    }
    let old = finalizers(live);
    let added: Vec<&str> = finalizers(new).into_iter().filter(|f| !old.contains(f)).collect();
    if added.is_empty() {
        return None;
    }
    let quoted: Vec<String> = added.iter().map(|f| format!("{f:?}")).collect();
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new \
         finalizers []string{{{}}}",
        quoted.join(", ")
    );
    Some(FieldError::forbidden(Path::new("metadata.finalizers"), detail))
}

pub fn without_finalizer(object: &Value, finalizer: &str) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut()
        && let Some(list) = metadata.get_mut("finalizers").and_then(Value::as_array_mut)
    {
        list.retain(|found| found != finalizer);
        if list.is_empty() {
            metadata.remove("finalizers");
        }
    }
    object
}
