//! Structural defaulting.

use serde_json::Value;

use super::subschema::Subschema;

pub(super) fn fill(node: &Subschema, value: &mut Value) {
    if !node.below.defaults {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, property) in &node.properties {
                let Some(default) = &property.default else {
                    continue;
                };
                match fields.get_mut(name) {
                    None => {
                        fields.insert(name.clone(), default.clone());
                    }
                    Some(given) if given.is_null() && !property.nullable => {
                        *given = default.clone()
                    }
                    Some(_) => {}
                }
            }
            for (name, child) in fields {
                if let Some(property) = node.properties.get(name) {
                    fill(property, child);
                } else if let Some(Some(values)) = &node.additional {
                    fill_member(values, child);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = node.items.as_deref() {
                items.iter_mut().for_each(|item| fill_member(schema, item));
            }
        }
        _ => {}
    }
}

/// A default replaces a member of a list or map only if the member is null and may not be.
fn fill_member(node: &Subschema, value: &mut Value) {
    if value.is_null()
        && !node.nullable
        && let Some(default) = &node.default
    {
        *value = default.clone();
    }
    fill(node, value);
}
