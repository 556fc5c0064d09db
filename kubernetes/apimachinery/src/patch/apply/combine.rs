//! Merges an applied configuration into a live object.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use crate::patch::field_set::element;
use crate::patch::member_shape;
use crate::shape::{List, ListKind, Scalar, Shape};

pub(super) fn merge(live: &mut Value, applied: &Value, shape: &Shape) {
    match (shape, &mut *live, applied) {
        (Shape::Object(object), ..) if object.atomic => *live = applied.clone(),
        (Shape::Map(map), ..) if map.atomic => *live = applied.clone(),
        (
            Shape::Any | Shape::Object(_) | Shape::Map(_),
            Value::Object(live),
            Value::Object(applied),
        ) => {
            merge_members(live, applied, shape);
        }
        // kubectl writes `creationTimestamp: null` into all generated objects; it has no meaning.
        (Shape::Scalar(Scalar::Time), _, Value::Null) => {}
        (Shape::Object(_) | Shape::Map(_), Value::Object(live), Value::Null)
            if !live.is_empty() => {}
        (Shape::List(list), Value::Array(live), Value::Array(applied))
            if list.kind != ListKind::Atomic =>
        {
            let items = std::mem::take(live);
            *live = merge_items(items, applied, list);
        }
        (Shape::List(list), Value::Array(live), Value::Null)
            if list.kind != ListKind::Atomic && !live.is_empty() => {}
        _ => *live = applied.clone(),
    }
}

fn merge_members(live: &mut Map<String, Value>, applied: &Map<String, Value>, shape: &Shape) {
    for (name, applied) in applied {
        match live.get_mut(name) {
            Some(live) => merge(live, applied, member_shape(shape, name)),
            None => drop(live.insert(name.clone(), applied.clone())),
        }
    }
}

/// Applied items come in the applied order. The other live items stay near their old position.
fn merge_items(live: Vec<Value>, applied: &[Value], list: &List) -> Vec<Value> {
    let name = |item: &Value| element(item, list).unwrap_or_default();
    let left: Vec<String> = live.iter().map(name).collect();
    let right: Vec<String> = applied.iter().map(name).collect();
    let in_right: HashSet<&str> = right.iter().map(String::as_str).collect();
    let mut live: Vec<Option<Value>> = live.into_iter().map(Some).collect();
    // If several live items share a name, the applied item replaces them all.
    let mut in_left: HashMap<&str, Option<usize>> = HashMap::new();
    for (index, name) in left.iter().enumerate() {
        in_left.entry(name).and_modify(|one| *one = None).or_insert(Some(index));
    }
    let mut shared = right
        .iter()
        .filter(|name| in_left.contains_key(name.as_str()))
        .peekable();

    let mut merged = Vec::with_capacity(left.len().max(right.len()));
    let mut done = HashSet::new();
    let (mut l, mut r) = (0, 0);
    while l < left.len() || r < right.len() {
        if let (Some(one), Some(other)) = (left.get(l), right.get(r))
            && one != other
            && in_right.contains(one.as_str())
            && shared.peek().is_some_and(|next| *next != one)
        {
            // This item is applied too, but another applied item comes first.
            l += 1;
            continue;
        }
        if let Some(one) = left.get(l).filter(|one| right.get(r) != Some(one)) {
            if !in_right.contains(one.as_str()) {
                merged.extend(live[l].take());
                l += 1;
                continue;
            }
            if done.contains(one) {
                l += 1;
            }
        }
        if let Some(other) = right.get(r) {
            if left.get(l) == Some(other) {
                l += 1;
            }
            let index = in_left.get(other.as_str()).copied().flatten();
            let item = match index.and_then(|index| live[index].take()) {
                Some(mut item) => {
                    merge(&mut item, &applied[r], &list.item);
                    item
                }
                None => applied[r].clone(),
            };
            merged.push(item);
            done.insert(other);
            if shared.peek() == Some(&other) {
                shared.next();
            }
            r += 1;
        }
    }
    merged
}
