//! The order of a merged list: items that the patch names come in its order, and the others keep
//! their position as far as possible.

use std::cmp::Ordering;

use serde_json::Value;

use crate::patch::go;
use crate::status::{Result, Status};

/// The directive for an item or a map, such as `delete` or `replace`.
pub(super) const PATCH: &str = "$patch";

/// What identifies an item: its merge key, or the whole item without one.
fn identity<'a>(item: &'a Value, key: Option<&str>) -> Option<&'a Value> {
    match key {
        Some(key) => item.get(key),
        None => Some(item),
    }
}

fn position(list: &[Value], item: &Value, key: Option<&str>) -> Option<usize> {
    let wanted = identity(item, key)?;
    list.iter().position(|other| identity(other, key) == Some(wanted))
}

/// Sorts `merged`: items in `wanted` take its order, all others that of `before`. One of the others
/// comes ahead of a wanted item if it was ahead of it before.
pub(super) fn arrange(
    merged: Vec<Value>,
    wanted: &[Value],
    before: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>> {
    if let Some(key) = key
        && let Some(item) = merged.iter().find(|item| item.get(key).is_none())
    {
        return Err(no_merge_key(item, key));
    }
    let (mut named, mut others): (Vec<_>, Vec<_>) = merged
        .into_iter()
        .map(|item| (position(wanted, &item, key), position(before, &item, key), item))
        .partition(|(in_wanted, _, _)| in_wanted.is_some());
    named.sort_by_key(|(in_wanted, _, _)| *in_wanted);
    others.sort_by_key(|(_, in_before, _)| *in_before);

    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    let mut arranged = Vec::new();
    while let Some((_, other_was, _)) = others.peek() {
        let other_first = match named.peek() {
            None => true,
            Some((_, named_was, _)) => {
                named_was.is_some()
                    && other_was.is_some()
                    && other_was.cmp(named_was) == Ordering::Less
            }
        };
        let next = if other_first { others.next() } else { named.next() };
        arranged.extend(next.map(|(_, _, item)| item));
    }
    arranged.extend(named.map(|(_, _, item)| item));
    Ok(arranged)
}

/// The items of the patch must be in the order of its own `$setElementOrder`.
pub(super) fn check(patch: &[Value], wanted: &[Value], key: Option<&str>) -> Result<()> {
    if wanted.is_empty() {
        return Ok(());
    }
    let mut rest = wanted.iter();
    let in_order = patch
        .iter()
        .filter(|item| item.get(PATCH).is_none())
        .all(|item| rest.any(|other| identity(other, key) == identity(item, key)));
    if in_order {
        return Ok(());
    }
    Err(Status::unclassified(format!(
        "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
        go::printed(&Value::Array(patch.to_vec())),
        go::printed(&Value::Array(wanted.to_vec()))
    )))
}

pub(super) fn no_merge_key(item: &Value, key: &str) -> Status {
    Status::unclassified(format!(
        "map: {} does not contain declared merge key: {key}",
        go::printed(item)
    ))
}
