//! Checks a configuration before it is applied: no unknown fields, no list items that are duplicate
//! or lack their key.

use std::collections::HashSet;

use serde_json::Value;

use crate::patch::field_set::{element, shown};
use crate::patch::{go, member_shape};
use crate::shape::{List, ListKind, Scalar, Shape};

/// The error names each problem with its path.
pub(super) fn configuration(applied: &Value, shape: &Shape) -> Result<(), String> {
    let mut problems = Vec::new();
    value(applied, shape, "", &mut problems);
    match problems.as_slice() {
        [] => Ok(()),
        [only] => Err(only.clone()),
        several => Err(format!("errors:\n  {}", several.join("\n  "))),
    }
}

fn value(given: &Value, shape: &Shape, path: &str, problems: &mut Vec<String>) {
    match (shape, given) {
        (Shape::Any, _) | (_, Value::Null) => {}
        (Shape::Scalar(scalar), _) => {
            if let Some(problem) = scalar_problem(*scalar, given) {
                problems.push(format!("{path}: {problem}"));
            }
        }
        (Shape::List(list), Value::Array(items)) => each_item(items, list, path, problems),
        (Shape::List(_), _) => {
            problems.push(format!("{path}: expected list, got &{{{}}}", go::printed(given)))
        }
        (Shape::Object(_) | Shape::Map(_), Value::Object(fields)) => {
            for (name, given) in fields {
                let path = format!("{path}.{name}");
                if is_unknown(shape, name) {
                    problems.push(format!("{path}: field not declared in schema"));
                    return;
                }
                value(given, member_shape(shape, name), &path, problems);
            }
        }
        (Shape::Object(_) | Shape::Map(_), _) => {
            problems.push(format!("{path}: expected map, got &{{{}}}", go::printed(given)));
        }
    }
}

fn is_unknown(shape: &Shape, name: &str) -> bool {
    matches!(shape, Shape::Object(object) if !object.open && !object.fields.contains_key(name))
}

fn scalar_problem(scalar: Scalar, given: &Value) -> Option<String> {
    match scalar {
        Scalar::Int32 | Scalar::Int64 | Scalar::Float => (!given.is_number())
            .then(|| format!("expected numeric (int or float), got {}", go::type_name(given))),
        Scalar::Bool => (!given.is_boolean())
            .then(|| format!("expected boolean, got &{{{}}}", go::printed(given))),
        Scalar::String | Scalar::Bytes | Scalar::Time | Scalar::MicroTime | Scalar::Duration => {
            (!given.is_string()).then(|| {
                format!(
                    "expected string, got &value.valueUnstructured{{Value:{}}}",
                    go::printed(given)
                )
            })
        }
        Scalar::Quantity | Scalar::IntOrString => (given.is_object() || given.is_array())
            .then(|| format!("expected any scalar, got &{{{}}}", go::printed(given))),
        Scalar::Raw => None,
    }
}

fn each_item(items: &[Value], list: &List, path: &str, problems: &mut Vec<String>) {
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let mut at = format!("{path}[{index}]");
        if list.kind != ListKind::Atomic {
            let Some(name) = element(item, list) else {
                problems
                    .push(format!("{path}: element {index}: {}", key_problem(item, &list.kind)));
                return;
            };
            at = format!("{path}{}", shown(&name));
            if seen.contains(&name) {
                problems.push(format!("{path}: duplicate entries for key {}", shown(&name)));
            }
            seen.insert(name);
        }
        value(item, &list.item, &at, problems);
    }
}

fn key_problem(item: &Value, kind: &ListKind) -> String {
    match (kind, item) {
        (ListKind::Map(_), Value::Null) => {
            "associative list with keys may not have a null element".to_owned()
        }
        (ListKind::Map(keys), Value::Object(_)) => {
            let keys: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            format!(
                "associative list with keys has an element that omits all key fields \
                 [{}] (and doesn't have default values for any key fields)",
                keys.join(" ")
            )
        }
        (ListKind::Map(_), _) => {
            "associative list with keys may not have non-map elements".to_owned()
        }
        (_, Value::Object(_)) => {
            "associative list without keys has an element that's a map type".to_owned()
        }
        (_, Value::Array(_)) => "not supported: associative list with lists as elements".to_owned(),
        _ => "associative list without keys has an element that's an explicit null".to_owned(),
    }
}
