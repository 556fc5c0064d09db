//! The order of a merged list: what the patch names comes in the patch's order, the rest stays
//! where it was as far as that allows.

use std::cmp::Ordering;

use serde_json::Value;

use crate::patch::go;
use crate::status::{Result, Status};

/// The directive that says what becomes of an item or a map.
pub(super) const PATCH: &str = "$patch";

/// What tells an item from others: the whole of a scalar, the merge key of an object.
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

/// Sorts `merged` so that items of `wanted` are in its order and the others in the order of
/// `before`; where the two meet, an other item goes ahead of a wanted one if it was ahead of it
/// before.
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

/// The items of the patch must come in the order that the patch itself asks for.
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
