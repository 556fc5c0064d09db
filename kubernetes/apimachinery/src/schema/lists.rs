//! Lists whose items have an identity: sets and maps must not have duplicates.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::subschema::Subschema;
use super::types::ListType;
use crate::status::{FieldError, FieldProblem};
use crate::trail::Trail;

/// If the old object has duplicates, an update may keep them and add others.
pub(super) fn check_change(root: &Subschema, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(root, new, &Trail::Root, &mut errors);
    if let Some(old) = old.filter(|_| !errors.is_empty()) {
        let mut before = Vec::new();
        walk(root, old, &Trail::Root, &mut before);
        if !before.is_empty() {
            errors.clear();
        }
    }
    errors
}

fn walk(node: &Subschema, value: &Value, at: &Trail<'_>, errors: &mut Vec<FieldError>) {
    if !node.below.keyed {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, child) in fields {
                if let Some(property) = node.properties.get(name) {
                    walk(property, child, &Trail::Field(at, name), errors);
                } else if let Some(Some(values)) = &node.additional {
                    walk(values, child, &Trail::Key(at, name), errors);
                }
            }
        }
        Value::Array(items) => {
            match &node.list {
                ListType::Atomic => {}
                ListType::Set => duplicates(items.iter().cloned(), at, errors),
                ListType::Map(keys) => {
                    if items.iter().all(|item| item.is_object() || item.is_null()) {
                        duplicates(items.iter().map(|item| identity(item, keys)), at, errors);
                    }
                }
            }
            if let Some(schema) = &node.items {
                for (index, item) in items.iter().enumerate() {
                    walk(schema, item, &Trail::Index(at, index), errors);
                }
            }
        }
        _ => {}
    }
}

fn identity(item: &Value, keys: &[String]) -> Value {
    let field = |key: &String| Some((key.clone(), item.get(key)?.clone()));
    Value::Object(keys.iter().filter_map(field).collect::<Map<_, _>>())
}

/// Reports each duplicate item once, at its second position.
fn duplicates(items: impl Iterator<Item = Value>, at: &Trail<'_>, errors: &mut Vec<FieldError>) {
    let mut seen: HashMap<Value, usize> = HashMap::new();
    for (index, item) in items.enumerate() {
        let times = seen.entry(item.clone()).or_default();
        *times += 1;
        if *times == 2 {
            let path = Trail::Index(at, index).path();
            errors.push(FieldError::new(FieldProblem::Duplicate, path, Some(item), ""));
        }
    }
}
