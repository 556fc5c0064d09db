//! Strategic merge patch: a merge patch that knows, from the shape of the kind, which lists merge
//! and by which key, and that takes directives (`$patch`, `$retainKeys`, `$setElementOrder/…`,
//! `$deleteFromPrimitiveList/…`).

mod order;

use serde_json::{Map, Value};

use super::{does_not_apply, go, member_shape};
use crate::shape::{ListPatch, Shape};
use crate::status::{Result, Status};
use order::{PATCH, no_merge_key};

const RETAIN_KEYS: &str = "$retainKeys";
const SET_ELEMENT_ORDER: &str = "$setElementOrder/";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";

type Fields = Map<String, Value>;

pub fn strategic(live: &Value, patch: &Value, shape: &Shape) -> Result<Value> {
    let patch = match patch {
        Value::Object(patch) => patch.clone(),
        Value::Null => Map::new(),
        other => {
            return Err(Status::bad_request(format!(
                "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
                go::json_kind(other)
            )));
        }
    };
    let live = live.as_object().cloned().unwrap_or_default();
    merge_fields(live, patch, shape).map(Value::Object)
}

fn merge_fields(mut original: Fields, mut patch: Fields, shape: &Shape) -> Result<Fields> {
    if let Some(directive) = patch.get(PATCH) {
        return match directive.as_str() {
            Some("replace") => {
                patch.remove(PATCH);
                Ok(patch)
            }
            Some("delete") => Ok(Map::new()),
            _ => Err(bad_directive(directive, &patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    set_element_order(&mut original, &mut patch, shape)?;
    for (key, value) in patch {
        if let Some(list) = key.strip_prefix(DELETE_FROM_LIST) {
            if let (Some(Value::Array(items)), Value::Array(gone)) =
                (original.get_mut(list), &value)
            {
                items.retain(|item| !gone.contains(item));
            }
            continue;
        }
        merge_field(&mut original, key, value, shape)?;
    }
    Ok(original)
}

fn merge_field(original: &mut Fields, key: String, value: Value, shape: &Shape) -> Result<()> {
    let child = member_shape(shape, &key);
    match (original.get_mut(&key), value) {
        (_, Value::Null) => {
            original.remove(&key);
        }
        (Some(Value::Object(old)), Value::Object(new)) => {
            *old = merge_fields(std::mem::take(old), new, child)?;
        }
        (Some(Value::Array(old)), Value::Array(new)) => {
            *old = merge_list(std::mem::take(old), new, child)?;
        }
        (_, mut value) => {
            drop_nulls(&mut value);
            if without_directives(&mut value) {
                original.insert(key, value);
            } else {
                original.remove(&key);
            }
        }
    }
    Ok(())
}

/// A new value has nothing to delete, so its nulls are dropped.
fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| !value.is_null());
            fields.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Removes objects with `$patch` from a new value. Returns false if `value` itself is one.
fn without_directives(value: &mut Value) -> bool {
    match value {
        Value::Object(fields) if fields.contains_key(PATCH) => return false,
        Value::Object(fields) => fields.retain(|_, value| without_directives(value)),
        Value::Array(items) => items.retain_mut(without_directives),
        _ => {}
    }
    true
}

/// `$retainKeys` lists the keys that may remain. A union that gets a new member loses the old one.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<()> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let bad = || Status::bad_request("invalid patch format of retainKeys");
    let kept = directive.as_array().ok_or_else(bad)?;
    let is_kept = |key: &str| kept.iter().any(|kept| kept == key);
    let is_directive =
        |key: &str| key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ELEMENT_ORDER);
    if patch
        .iter()
        .any(|(key, value)| !value.is_null() && !is_directive(key) && !is_kept(key))
    {
        return Err(bad());
    }
    original.retain(|key, _| is_kept(key));
    Ok(())
}

/// Merges each list with a `$setElementOrder`, and sorts it in that order.
fn set_element_order(original: &mut Fields, patch: &mut Fields, shape: &Shape) -> Result<()> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|key| key.starts_with(SET_ELEMENT_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let name = &directive[SET_ELEMENT_ORDER.len()..];
        let wanted = patch.remove(&directive).map(list).transpose()?.unwrap_or_default();
        let child = member_shape(shape, name);
        let old = original.get(name).cloned().map(list).transpose()?;
        let new = patch.remove(name).map(list).transpose()?;
        let key = merge_key(child);
        order::check(new.as_deref().unwrap_or_default(), &wanted, key)?;
        let before = old.clone().unwrap_or_default();
        let merged = match (old, new) {
            (None, None) => continue,
            (Some(old), None) => old,
            (Some(old), Some(new)) => merge_list(old, new, child)?,
            (None, Some(new)) => {
                let mut new = Value::Array(new);
                without_directives(&mut new);
                list(new)?
            }
        };
        let ordered = order::arrange(merged, &wanted, &before, key)?;
        original.insert(name.to_owned(), Value::Array(ordered));
    }
    Ok(())
}

fn list(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(items) => Ok(items),
        other => Err(Status::unclassified(format!(
            "expected a []interface {{}}, but received a {}",
            go::type_name(&other)
        ))),
    }
}

fn merge_key(shape: &Shape) -> Option<&str> {
    match shape {
        Shape::List(list) => match &list.patch {
            ListPatch::MergeBy(key) => Some(key),
            ListPatch::Replace | ListPatch::Merge => None,
        },
        _ => None,
    }
}

fn merge_list(mut original: Vec<Value>, patch: Vec<Value>, shape: &Shape) -> Result<Vec<Value>> {
    let Shape::List(list) = shape else {
        return Ok(patch);
    };
    if original.iter().chain(&patch).any(Value::is_array) && list.patch != ListPatch::Replace {
        return Err(does_not_apply());
    }
    let before = original.clone();
    match &list.patch {
        ListPatch::Replace => Ok(patch),
        ListPatch::Merge => {
            for item in &patch {
                if !original.contains(item) {
                    original.push(item.clone());
                }
            }
            order::arrange(original, &patch, &before, None)
        }
        ListPatch::MergeBy(key) => {
            let patch = match special_items(&mut original, patch, key)? {
                Items::Replace(items) => return Ok(items),
                Items::Merge(items) => items,
            };
            let before = original.clone();
            for item in &patch {
                merge_item(&mut original, item, key, &list.item)?;
            }
            order::arrange(original, &patch, &before, Some(key))
        }
    }
}

enum Items {
    Replace(Vec<Value>),
    Merge(Vec<Value>),
}

/// Runs the directives of items with `$patch`, and returns the items without.
fn special_items(original: &mut Vec<Value>, patch: Vec<Value>, key: &str) -> Result<Items> {
    let mut plain = Vec::with_capacity(patch.len());
    let mut replace = false;
    for item in patch {
        let Some(fields) = item.as_object() else {
            return Err(Status::unclassified(format!(
                "list element types are not identical: {}",
                go::printed(&item)
            )));
        };
        let Some(directive) = fields.get(PATCH) else {
            plain.push(item);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                let gone = fields.get(key).ok_or_else(|| no_merge_key(&item, key))?;
                original.retain(|item| item.get(key) != Some(gone));
            }
            Some("replace") => replace = true,
            Some("merge") => {
                let message = "merging lists cannot yet be specified in the patch";
                return Err(Status::unclassified(message.to_owned()));
            }
            _ => return Err(bad_directive(directive, fields)),
        }
    }
    Ok(if replace {
        Items::Replace(plain)
    } else {
        Items::Merge(plain)
    })
}

fn merge_item(original: &mut Vec<Value>, item: &Value, key: &str, shape: &Shape) -> Result<()> {
    let wanted = item.get(key).ok_or_else(|| no_merge_key(item, key))?;
    let found = original.iter_mut().find(|old| old.get(key) == Some(wanted));
    match (found, item) {
        (Some(Value::Object(old)), Value::Object(new)) => {
            *old = merge_fields(std::mem::take(old), new.clone(), shape)?;
        }
        _ => original.push(item.clone()),
    }
    Ok(())
}

fn bad_directive(directive: &Value, fields: &Fields) -> Status {
    Status::unclassified(format!(
        "unknown patch type: {} in map: {}",
        go::printed(directive),
        go::printed(&Value::Object(fields.clone()))
    ))
}
