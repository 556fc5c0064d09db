//! Structural pruning: removes fields that the schema does not know.

use serde_json::Value;

use super::number;
use super::subschema::Subschema;
use crate::trail::Trail;

/// Fields that every resource has, whatever its schema says.
pub(super) const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// `resource` says that the value is a whole resource, not a part of one.
pub(super) fn prune(root: &Subschema, value: &mut Value, resource: bool) -> Vec<String> {
    let mut unknown = Vec::new();
    walk(value, Some(root), resource, &Trail::Root, &mut unknown);
    unknown.sort();
    unknown
}

/// `node` is `None` below `additionalProperties: true`. There scalars stay, but fields of objects
/// are removed.
fn walk(
    value: &mut Value,
    node: Option<&Subschema>,
    resource: bool,
    at: &Trail<'_>,
    unknown: &mut Vec<String>,
) {
    match value {
        Value::Object(fields) => fields.retain(|name, child| {
            if resource && META_FIELDS.contains(&name.as_str()) {
                return true;
            }
            let here = Trail::Field(at, name);
            let Some(node) = node else {
                unknown.push(here.to_string());
                return false;
            };
            let schema = match (node.properties.get(name), &node.additional) {
                (Some(property), _) => Some(property),
                (None, Some(values)) => values.as_deref(),
                (None, None) if node.preserve => return true,
                (None, None) => {
                    unknown.push(here.to_string());
                    return false;
                }
            };
            if child.is_null() {
                // Null means "not given" where the schema has no null; a default takes its place
                // later.
                return schema.is_none_or(|schema| schema.nullable || schema.default.is_some());
            }
            walk(child, schema, schema.is_some_and(|s| s.embedded), &here, unknown);
            true
        }),
        Value::Array(items) => {
            let schema = node.and_then(|node| node.items.as_deref());
            if schema.is_none() && node.is_some_and(|node| node.preserve) {
                return;
            }
            for (index, item) in items.iter_mut().enumerate() {
                let here = Trail::Index(at, index);
                walk(item, schema, schema.is_some_and(|s| s.embedded), &here, unknown);
            }
        }
        // `1.0` is written as `1`.
        Value::Number(given) if given.is_f64() => *value = number::plain(given),
        _ => {}
    }
}
