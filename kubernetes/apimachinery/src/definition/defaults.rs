//! Checks that a schema accepts its own defaults.

use serde_json::Value;

use crate::schema::Schema;
use crate::status::{FieldError, Path};

pub(super) fn check(schema: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    if let Some(default) = schema.get("default").filter(|default| !default.is_null()) {
        errors.extend(check_one(schema, default, &path.child("default")));
    }
    if schema["items"].is_object() {
        check(&schema["items"], &path.child("items"), errors);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        check(property, &path.child("properties").key(name), errors);
    }
}

fn check_one(schema: &Value, default: &Value, path: &Path) -> Vec<FieldError> {
    // Rules and patterns that do not compile are reported at their own path.
    let Ok(compiled) = Schema::new(schema) else {
        return Vec::new();
    };
    let mut pruned = default.clone();
    compiled.prune_part(&mut pruned);
    let mut errors = Vec::new();
    if &pruned != default {
        errors.push(FieldError::invalid(
            path.clone(),
            default.clone(),
            "must not have unknown fields",
        ));
    }
    errors.extend(compiled.validate(default, None).into_iter().map(|mut error| {
        error.field = if error.field == Path::root() {
            path.clone()
        } else {
            path.child(&error.field.to_string())
        };
        error
    }));
    errors
}
