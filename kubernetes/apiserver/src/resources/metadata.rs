//! What of `metadata` is the server's, and what happens to it from one state of an object to the
//! next.

use berth_apimachinery::status::{FieldError, Path};
use serde_json::{Value, json};

use crate::kinds::Kind;

/// What a client sends of these when it creates counts for nothing.
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

/// Of these, an update keeps what is there.
const KEPT: &[&str] = &[
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

pub fn keep(new: &mut Value, live: &Value) {
    if !new["metadata"].is_object() {
        new["metadata"] = json!({});
    }
    let Some(metadata) = new["metadata"].as_object_mut() else {
        return;
    };
    metadata.remove("selfLink");
    for &field in KEPT {
        match live["metadata"].get(field) {
            Some(value) => drop(metadata.insert(field.to_owned(), value.clone())),
            None => drop(metadata.remove(field)),
        }
    }
}

/// Nobody can mark an object as deleted but by deleting it.
pub fn forged(new: &Value, live: &Value) -> Vec<FieldError> {
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

/// Whether the bytes can have such a field at all.
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

/// Nothing holds it any more: an update that reaches this state removes the object.
pub fn can_go(kind: &Kind, object: &Value) -> bool {
    let grace = object["metadata"]["deletionGracePeriodSeconds"].as_i64();
    is_deleting(object)
        && finalizers(object).is_empty()
        && grace.unwrap_or_default() == 0
        && !(kind.deletion().is_held)(object)
}

/// Whoever is being deleted takes no new finalizers.
pub fn new_finalizers(new: &Value, live: &Value) -> Option<FieldError> {
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
