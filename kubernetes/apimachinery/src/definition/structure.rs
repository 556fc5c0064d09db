//! Checks the schema of one version: every part has a type, defaults are valid, and patterns and
//! rules compile.

use serde_json::Value;

use super::defaults;
use crate::schema::Schema;
use crate::status::{FieldError, Path};

pub(super) fn check(schema: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if schema.is_null() {
        return errors;
    }
    check_types(schema, "at the root", path, &mut errors);
    let kind = schema["type"].as_str().unwrap_or_default();
    if !kind.is_empty() && kind != "object" {
        let why = "must be object at the root";
        errors.push(FieldError::invalid(path.child("type"), kind.into(), why));
    }
    if errors.is_empty() {
        defaults::check(schema, path, &mut errors);
    }
    // Rules are only compiled if the schema is valid.
    if errors.is_empty() {
        errors.extend(Schema::check(schema, path));
    }
    errors
}

/// `place` is the name of the part in the error for a missing type.
fn check_types(schema: &Value, place: &str, path: &Path, errors: &mut Vec<FieldError>) {
    let is = |name: &str| schema[name] == true;
    let untyped = is("x-kubernetes-int-or-string") || is("x-kubernetes-preserve-unknown-fields");
    match schema["type"].as_str().unwrap_or_default() {
        "" if !untyped => {
            let why = format!("must not be empty {place}");
            errors.push(FieldError::required(path.child("type"), why));
        }
        "array" if schema["items"].is_null() => {
            errors.push(FieldError::required(path.child("items"), "must be specified"));
        }
        _ => {}
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = path.child("properties").key(name);
        check_types(property, "for specified object fields", &path, errors);
    }
    for (name, place) in [
        ("items", "for specified array items"),
        ("additionalProperties", "for specified object fields"),
    ] {
        if schema[name].is_object() {
            check_types(&schema[name], place, &path.child(name), errors);
        }
    }
}
