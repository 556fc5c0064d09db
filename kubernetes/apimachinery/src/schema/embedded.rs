//! Checks whole resources inside a resource (`x-kubernetes-embedded-resource`): they must have
//! apiVersion and kind.

use serde_json::{Map, Value};

use super::subschema::Subschema;
use crate::status::FieldError;
use crate::trail::Trail;

pub(super) fn check(root: &Subschema, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(root, object, &Trail::Root, &mut errors);
    errors
}

fn walk(node: &Subschema, value: &Value, at: &Trail<'_>, errors: &mut Vec<FieldError>) {
    if !node.below.embedded {
        return;
    }
    match value {
        Value::Object(fields) => {
            if node.embedded {
                names(fields, at, errors);
            }
            for (name, child) in fields {
                if let Some(property) = node.properties.get(name) {
                    walk(property, child, &Trail::Field(at, name), errors);
                } else if let Some(Some(values)) = &node.additional {
                    walk(values, child, &Trail::Key(at, name), errors);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &node.items {
                for (index, item) in items.iter().enumerate() {
                    walk(schema, item, &Trail::Index(at, index), errors);
                }
            }
        }
        _ => {}
    }
}

fn names(fields: &Map<String, Value>, at: &Trail<'_>, errors: &mut Vec<FieldError>) {
    for name in ["apiVersion", "kind"] {
        let path = Trail::Field(at, name).path();
        match fields.get(name) {
            None => errors.push(FieldError::required(path, "")),
            Some(Value::String(text)) if text.is_empty() => {
                errors.push(FieldError::invalid(path, "".into(), "must not be empty"));
            }
            Some(Value::String(_)) => {}
            Some(other) => {
                errors.push(FieldError::invalid(path, other.clone(), "must be a string"))
            }
        }
    }
}
