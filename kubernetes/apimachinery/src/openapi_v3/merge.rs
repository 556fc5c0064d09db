//! Writes into the schemas how lists and maps merge. `kubectl apply` computes its patches from
//! these extensions.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::shape::{Field, ListKind, ListPatch, Shape};

/// Marks the schema of this name and all schemas that it refers to.
pub fn mark(schemas: &mut Map<String, Value>, name: &str, shape: &Shape) {
    let mut seen = HashSet::new();
    let mut queue = vec![(name.to_owned(), shape)];
    while let Some((name, shape)) = queue.pop() {
        if let Some(schema) = schemas.get_mut(&name)
            && let Shape::Object(object) = shape
        {
            if object.atomic {
                schema["x-kubernetes-map-type"] = "atomic".into();
            }
            for (name, field) in &object.fields {
                if let Some(property) =
                    schema.get_mut("properties").and_then(|all| all.get_mut(name))
                {
                    mark_field(property, field);
                    mark_value(property, &field.shape, &mut queue);
                }
            }
        }
        queue.retain(|(name, _)| !seen.contains(name));
        seen.insert(name);
    }
}

fn mark_field(property: &mut Value, field: &Field) {
    let mut strategy = Vec::new();
    if let Shape::List(list) = &*field.shape {
        match &list.patch {
            ListPatch::Replace => {}
            ListPatch::Merge => strategy.push("merge"),
            ListPatch::MergeBy(key) => {
                strategy.push("merge");
                property["x-kubernetes-patch-merge-key"] = json!(key);
            }
        }
    }
    if field.retain_keys {
        strategy.push("retainKeys");
    }
    if !strategy.is_empty() {
        property["x-kubernetes-patch-strategy"] = strategy.join(",").into();
    }
    if let Some(default) = &field.default {
        property["default"] = default.clone();
    }
}

fn mark_value<'s>(schema: &mut Value, shape: &'s Shape, queue: &mut Vec<(String, &'s Shape)>) {
    match shape {
        Shape::List(list) => {
            match &list.kind {
                ListKind::Atomic => schema["x-kubernetes-list-type"] = "atomic".into(),
                ListKind::Set => schema["x-kubernetes-list-type"] = "set".into(),
                ListKind::Map(keys) => {
                    schema["x-kubernetes-list-type"] = "map".into();
                    schema["x-kubernetes-list-map-keys"] = json!(keys);
                }
            }
            if let Some(items) = schema.get_mut("items") {
                mark_value(items, &list.item, queue);
            }
        }
        Shape::Map(map) => {
            if map.atomic {
                schema["x-kubernetes-map-type"] = "atomic".into();
            }
            if let Some(values) = schema.get_mut("additionalProperties") {
                mark_value(values, &map.value, queue);
            }
        }
        Shape::Object(_) => {
            let reference = schema.get("$ref").or_else(|| schema.pointer("/allOf/0/$ref"));
            if let Some((_, name)) =
                reference.and_then(Value::as_str).and_then(|text| text.rsplit_once('/'))
            {
                queue.push((name.to_owned(), shape));
            }
        }
        Shape::Any | Shape::Scalar(_) => {}
    }
}
