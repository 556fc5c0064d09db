//! Field sets from values: the fields that a value has, and those that differ between two values.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::super::member_shape;
use super::{FieldSet, SELF, contains_self};
use crate::shape::{Field, List, ListKind, Shape};

static NOTHING: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));

/// The changes of an object. A field that holds others is itself in the sets only if it was added
/// or removed as a whole.
#[derive(Debug, Default, PartialEq)]
pub(in crate::patch) struct Change {
    /// Added or modified.
    pub written: FieldSet,
    pub removed: FieldSet,
}

impl Change {
    /// `None` for `old`: the object is new.
    pub fn between(old: Option<&Value>, new: &Value, shape: &Shape) -> Self {
        let (written, removed) = compare(old.or(Some(&NOTHING)), Some(new), shape);
        Self {
            written: FieldSet(written.children),
            removed: FieldSet(removed.children),
        }
    }
}

impl FieldSet {
    /// The fields that an applied configuration claims.
    pub fn of(value: &Value, shape: &Shape) -> Self {
        Self(fields_of(value, shape).children)
    }

    /// Adds the parents of each member that are fields in the shape, not keys of a map or list.
    pub(in crate::patch) fn with_parents(mut self, shape: &Shape) -> Self {
        add_parents(&mut self.0, shape);
        self
    }

    /// Removes the members from a value, with all that is in them. A parent that becomes empty
    /// stays and counts as a field; a list becomes null, since an empty list has no owner.
    pub(in crate::patch) fn remove_from(&self, value: &mut Value, shape: &Shape) {
        remove(value, &self.0, shape, false);
    }

    /// After `remove_from`: also removes empty parents where a built-in kind can't express them.
    pub(in crate::patch) fn remove_empty(&self, value: &mut Value, shape: &Shape) {
        remove(value, &self.0, shape, true);
    }
}

/// The name of an item in its list. `None` if the list's items have no names, or the item lacks its
/// key.
pub(in crate::patch) fn element(item: &Value, list: &List) -> Option<String> {
    let keys = match &list.kind {
        ListKind::Atomic => return None,
        ListKind::Set if item.is_object() || item.is_array() || item.is_null() => return None,
        ListKind::Set => return Some(format!("v:{item}")),
        ListKind::Map(keys) => keys,
    };
    let item = item.as_object()?;
    let default = |key: &str| declared(&list.item, key)?.default.as_ref();
    let mut found: Vec<(&str, &Value)> = keys
        .iter()
        .filter_map(|key| Some((key.as_str(), item.get(key).or_else(|| default(key))?)))
        .collect();
    found.sort_unstable_by_key(|(key, _)| *key);
    let pairs: Vec<String> =
        found.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
    (!pairs.is_empty()).then(|| format!("k:{{{}}}", pairs.join(",")))
}

fn field_element(name: &str) -> String {
    ["f:", name].concat()
}

fn declared<'a>(shape: &'a Shape, name: &str) -> Option<&'a Field> {
    match shape {
        Shape::Object(object) => object.fields.get(name),
        _ => None,
    }
}

fn is_atomic(shape: &Shape) -> bool {
    match shape {
        Shape::Any => false,
        Shape::Scalar(_) => true,
        Shape::Object(object) => object.atomic,
        Shape::Map(map) => map.atomic,
        Shape::List(list) => list.kind == ListKind::Atomic,
    }
}

/// A part of a set: whether the path itself is in it, and what is below.
#[derive(Default)]
struct Node {
    is_member: bool,
    children: Map<String, Value>,
}

impl Node {
    fn member() -> Self {
        Self {
            is_member: true,
            children: Map::new(),
        }
    }

    fn put(&mut self, element: impl FnOnce() -> String, mut child: Self) {
        if super::finish(&mut child.children, child.is_member) {
            self.children.insert(element(), Value::Object(child.children));
        }
    }
}

/// The fields of `new` that were written, and those of `old` that are gone.
fn compare(old: Option<&Value>, new: Option<&Value>, shape: &Shape) -> (Node, Node) {
    let mut given = [old, new].into_iter().flatten();
    match shape {
        Shape::List(list) if !is_atomic(shape) => compare_items(old, new, list),
        Shape::Object(_) | Shape::Map(_) if !is_atomic(shape) => compare_members(old, new, shape),
        Shape::Any if !given.clone().any(Value::is_object) => compare_leaf(old, new),
        Shape::Any if given.all(|value| value.is_object() || value.is_null()) => {
            compare_members(old, new, shape)
        }
        // An object became something else, or the reverse.
        Shape::Any => {
            let (mut written, _) = compare(None, new, shape);
            let (_, mut removed) = compare(old, None, shape);
            written.is_member = true;
            removed.is_member = false;
            (written, removed)
        }
        _ => compare_leaf(old, new),
    }
}

fn compare_leaf(old: Option<&Value>, new: Option<&Value>) -> (Node, Node) {
    match (old, new) {
        (Some(_), None) => (Node::default(), Node::member()),
        (old, new) if old == new => (Node::default(), Node::default()),
        _ => (Node::member(), Node::default()),
    }
}

fn fields(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object).filter(|fields| !fields.is_empty())
}

fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn compare_members(old: Option<&Value>, new: Option<&Value>, shape: &Shape) -> (Node, Node) {
    let (old_fields, new_fields) = (fields(old), fields(new));
    if old_fields.is_none() && new_fields.is_none() {
        return compare_leaf(old, new);
    }
    let (mut written, mut removed) = (Node::default(), Node::default());
    let mut visit = |name: &str, was: Option<&Value>, is: Option<&Value>| {
        let field = declared(shape, name);
        let implied = || field.and_then(|field| implied(name, field));
        let was = was.or_else(|| old.and_then(|_| implied()));
        let is = is.or_else(|| new.and_then(|_| implied()));
        let is_unset = |is: &Value| field.is_some_and(|field| counts_as_absent(is, field));
        if was.is_none() && old.is_some() && is.is_some_and(is_unset) {
            return;
        }
        let member_shape = field.map_or_else(|| member_shape(shape, name), |field| &field.shape);
        let (child_written, child_removed) = compare(was, is, member_shape);
        written.put(|| field_element(name), child_written);
        removed.put(|| field_element(name), child_removed);
    };
    for (name, is) in new_fields.into_iter().flatten() {
        visit(name, old_fields.and_then(|fields| fields.get(name)), Some(is));
    }
    for (name, was) in old_fields.into_iter().flatten() {
        if !new_fields.is_some_and(|fields| fields.contains_key(name)) {
            visit(name, Some(was), None);
        }
    }
    written.is_member = old.is_none();
    removed.is_member = new.is_none();
    (written, removed)
}

/// Go's value of an unset field that exists whenever its parent does: a struct that is not a
/// pointer, and `containers`, the only list with keys that Go writes even if it is empty.
fn implied(name: &str, field: &Field) -> Option<&'static Value> {
    match &*field.shape {
        _ if field.pointer => None,
        Shape::Object(_) => Some(&NOTHING),
        Shape::List(list) if name == "containers" && matches!(list.kind, ListKind::Map(_)) => {
            Some(&Value::Null)
        }
        _ => None,
    }
}

/// Whether the value is what Go writes for an unset field.
fn counts_as_absent(value: &Value, field: &Field) -> bool {
    match value {
        Value::Null => !field.pointer,
        Value::Bool(value) => field.always && !value,
        Value::Number(number) => field.always && number.as_f64() == Some(0.0),
        Value::String(text) => field.always && text.is_empty(),
        Value::Array(_) | Value::Object(_) => false,
    }
}

fn compare_items(old: Option<&Value>, new: Option<&Value>, list: &List) -> (Node, Node) {
    let (old_items, new_items) = (items(old), items(new));
    if old_items.is_empty() && new_items.is_empty() {
        return compare_leaf(old, new);
    }
    let (mut written, mut removed) = (Node::default(), Node::default());
    written.is_member = old.is_none();
    removed.is_member = new.is_none();
    if old_items == new_items {
        return (written, removed);
    }
    let named = |item, is_new| element(item, list).map(|name| (name, is_new, item));
    let mut all: Vec<(String, bool, &Value)> = old_items
        .iter()
        .filter_map(|item| named(item, false))
        .chain(new_items.iter().filter_map(|item| named(item, true)))
        .collect();
    all.sort_by(|(one, ..), (other, ..)| one.cmp(other));
    for same in all.chunk_by(|(one, ..), (other, ..)| one == other) {
        let (was, is) = same.split_at(same.partition_point(|(_, is_new, _)| !is_new));
        let name = || same[0].0.clone();
        let (first_was, first_is) =
            (was.first().map(|(.., item)| *item), is.first().map(|(.., item)| *item));
        // Items that share a name are owned together, as one leaf.
        let (child_written, child_removed) = match (was.len(), is.len()) {
            (0 | 1, 0 | 1) => compare(first_was, first_is, &list.item),
            (0 | 1, _) => (Node::member(), compare(first_was, None, &list.item).1),
            (_, 0 | 1) => (compare(None, first_is, &list.item).0, Node::member()),
            _ if was.iter().map(|(.., item)| item).eq(is.iter().map(|(.., item)| item)) => continue,
            _ => (Node::member(), Node::default()),
        };
        written.put(name, child_written);
        removed.put(name, child_removed);
    }
    (written, removed)
}

fn fields_of(value: &Value, shape: &Shape) -> Node {
    let mut node = Node::default();
    match (shape, value) {
        _ if is_atomic(shape) => node.is_member = true,
        (Shape::List(list), Value::Array(items)) => {
            let named = |item| element(item, list).map(|name| (name, item));
            let mut all: Vec<(String, &Value)> = items.iter().filter_map(named).collect();
            all.sort_by(|(one, _), (other, _)| one.cmp(other));
            for same in all.chunk_by(|(one, _), (other, _)| one == other) {
                let mut child = match same {
                    [(_, item)] => fields_of(item, &list.item),
                    _ => Node::default(),
                };
                child.is_member = true;
                node.put(|| same[0].0.clone(), child);
            }
        }
        (Shape::Any | Shape::Object(_) | Shape::Map(_), Value::Object(fields)) => {
            for (name, value) in fields {
                let mut child = fields_of(value, member_shape(shape, name));
                let is_bare = value.is_null() || value.as_object().is_some_and(Map::is_empty);
                child.is_member |= is_bare || declared(shape, name).is_none();
                node.put(|| field_element(name), child);
            }
        }
        (Shape::Any, _) => node.is_member = true,
        _ => {}
    }
    node
}

fn add_parents(node: &mut Map<String, Value>, shape: &Shape) {
    for (element, child) in node {
        let Value::Object(child) = child else {
            continue;
        };
        if child.is_empty() {
            continue;
        }
        match (element.strip_prefix("f:"), shape) {
            (Some(name), _) => {
                add_parents(child, member_shape(shape, name));
                if declared(shape, name).is_some() {
                    child.insert(SELF.to_owned(), Value::Object(Map::new()));
                }
            }
            (None, Shape::List(list)) => add_parents(child, &list.item),
            (None, _) => {}
        }
    }
}

fn remove(value: &mut Value, set: &Map<String, Value>, shape: &Shape, remove_empty: bool) {
    match (shape, &mut *value) {
        _ if is_atomic(shape) => {}
        (Shape::List(list), Value::Array(items)) => {
            items.retain_mut(|item| {
                let name = element(item, list);
                let node = name.and_then(|name| set.get(&name)?.as_object());
                if let Some(node) = node.filter(|node| !contains_self(node)) {
                    remove(item, node, &list.item, remove_empty);
                }
                !node.is_some_and(contains_self)
            });
            if items.is_empty() {
                *value = Value::Null;
            }
        }
        (Shape::List(_), Value::Null) if remove_empty => *value = Value::Array(Vec::new()),
        (_, Value::Object(fields)) => {
            for (element, node) in set {
                let (Some(name), Value::Object(node)) = (element.strip_prefix("f:"), node) else {
                    continue;
                };
                let goes = match fields.get_mut(name) {
                    None => false,
                    Some(_) if contains_self(node) => true,
                    Some(child) => {
                        remove(child, node, member_shape(shape, name), remove_empty);
                        let is_empty = child.as_object().is_some_and(Map::is_empty)
                            || child.as_array().is_some_and(Vec::is_empty);
                        remove_empty
                            && is_empty
                            && declared(shape, name).is_some_and(|field| !field.tag.is_empty())
                    }
                };
                if goes {
                    fields.remove(name);
                }
            }
        }
        _ => {}
    }
}
