//! Filling in defaults.

use serde_json::{Value, json};

/// Sets the fields that are missing.
pub fn fill(object: &mut Value, defaults: &Value) {
    if object.is_null() {
        *object = json!({});
    }
    if let (Some(object), Some(defaults)) = (object.as_object_mut(), defaults.as_object()) {
        for (field, value) in defaults {
            object.entry(field).or_insert_with(|| value.clone());
        }
    }
}

/// Sets the missing fields of an object, if the object exists.
pub fn fill_if_there(parent: &mut Value, field: &str, defaults: &Value) {
    if let Some(object) = parent.get_mut(field).filter(|value| value.is_object()) {
        fill(object, defaults);
    }
}

pub fn each<'a>(parent: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    let list = parent.get_mut(field).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter(|value| value.is_object())
}
