//! Sets of field paths, as server-side apply keeps them for each manager (`fieldsV1`).

mod shaped;

pub(super) use shaped::{Change, element};

use std::borrow::Cow;

use serde_json::{Map, Value};

/// Marks, inside a node, that the node's own path is in the set. A node without children is in the
/// set without it.
const SELF: &str = ".";

/// A set of paths in its wire form: a tree of `f:name`, `k:{"key":"value"}`, `v:value` and
/// `i:index`. The stored sets are edited in place, so the cost of a write depends on what it
/// changes.
///
/// Every node is an object; `.` stands only in nodes that have children; keys and values are
/// printed as `serde_json` prints them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldSet(Map<String, Value>);

impl FieldSet {
    /// `None` if the value is not a valid `fieldsV1`.
    pub fn parse(fields: Value) -> Option<Self> {
        let Value::Object(mut root) = fields else {
            return None;
        };
        normalize(&mut root)?;
        root.remove(SELF);
        Some(Self(root))
    }

    pub fn into_value(self) -> Value {
        Value::Object(self.0)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn union(&mut self, other: Self) {
        union(&mut self.0, other.0);
    }

    pub fn subtract(&mut self, other: &Self) {
        subtract(&mut self.0, &other.0);
    }

    pub fn intersect(&mut self, other: &Self) {
        intersect(&mut self.0, &other.0);
    }

    /// Every path in its readable form, `.spec.containers[name="a"].image`. For each node, first
    /// its members, then the paths below.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        list_paths(&self.0, "", &mut paths);
        paths
    }

    /// Removes a field of the object with all paths below it.
    pub(super) fn remove_field(&mut self, field: &str) {
        self.0.remove(&format!("f:{field}"));
    }

    /// Removes the fields that every object has and nobody can own.
    pub(super) fn strip_meta(&mut self) {
        const METADATA: [&str; 8] = [
            "f:name",
            "f:namespace",
            "f:creationTimestamp",
            "f:selfLink",
            "f:uid",
            "f:generation",
            "f:managedFields",
            "f:resourceVersion",
        ];
        self.0.remove("f:apiVersion");
        self.0.remove("f:kind");
        if let Some(Value::Object(metadata)) = self.0.get_mut("f:metadata") {
            metadata.remove(SELF);
            for name in METADATA {
                metadata.remove(name);
            }
            if metadata.is_empty() {
                self.0.remove("f:metadata");
            }
        }
    }
}

/// Makes a tree from outside keep the invariants. `None` if it is invalid.
fn normalize(node: &mut Map<String, Value>) -> Option<()> {
    let mut misspelt = Vec::new();
    for (element, child) in node.iter_mut() {
        let Value::Object(child) = child else {
            return None;
        };
        if element == SELF {
            child.clear();
            continue;
        }
        normalize(child)?;
        if child.len() == 1 {
            child.remove(SELF);
        }
        if let Cow::Owned(canonical) = canonical(element)? {
            misspelt.push((element.clone(), canonical));
        }
    }
    for (element, canonical) in misspelt {
        let child = node.remove(&element).map(|child| (canonical, child));
        union(node, child.into_iter().collect());
    }
    Some(())
}

/// The only spelling of an element. With several, the same path could be in a set twice.
fn canonical(element: &str) -> Option<Cow<'_, str>> {
    let spelling = match element.split_at_checked(2)? {
        ("f:", _) => return Some(element.into()),
        ("k:", keys) => format!("k:{}", Value::Object(serde_json::from_str(keys).ok()?)),
        ("v:", value) => format!("v:{}", serde_json::from_str::<Value>(value).ok()?),
        ("i:", index) => format!("i:{}", index.parse::<i64>().ok()?),
        _ => return None,
    };
    Some(if spelling == element {
        element.into()
    } else {
        spelling.into()
    })
}

fn contains_self(node: &Map<String, Value>) -> bool {
    node.is_empty() || node.contains_key(SELF)
}

/// Restores the mark after an operation on the children. Returns false if nothing of the node is
/// left in the set.
fn finish(node: &mut Map<String, Value>, is_member: bool) -> bool {
    if is_member && !node.is_empty() {
        node.insert(SELF.to_owned(), Value::Object(Map::new()));
    }
    is_member || !node.is_empty()
}

fn union(left: &mut Map<String, Value>, right: Map<String, Value>) {
    for (element, right) in right {
        match (left.get_mut(&element), right) {
            (Some(Value::Object(left)), Value::Object(mut right)) => {
                let is_member = contains_self(left) || contains_self(&right);
                right.remove(SELF);
                union(left, right);
                finish(left, is_member);
            }
            (_, right) => {
                left.insert(element, right);
            }
        }
    }
}

fn subtract(left: &mut Map<String, Value>, right: &Map<String, Value>) {
    for (element, right) in right {
        let (Some(Value::Object(node)), Value::Object(right)) = (left.get_mut(element), right)
        else {
            continue;
        };
        let is_member = contains_self(node) && !contains_self(right);
        node.remove(SELF);
        subtract(node, right);
        if !finish(node, is_member) {
            left.remove(element);
        }
    }
}

fn intersect(left: &mut Map<String, Value>, right: &Map<String, Value>) {
    left.retain(|element, left| {
        let (Value::Object(left), Some(Value::Object(right))) = (left, right.get(element)) else {
            return false;
        };
        let is_member = contains_self(left) && contains_self(right);
        left.remove(SELF);
        intersect(left, right);
        finish(left, is_member)
    });
}

fn list_paths(node: &Map<String, Value>, prefix: &str, paths: &mut Vec<String>) {
    let children = || node.iter().filter(|(element, _)| *element != SELF);
    for (element, child) in children() {
        if child.as_object().is_some_and(contains_self) {
            paths.push(format!("{prefix}{}", shown(element)));
        }
    }
    for (element, child) in children() {
        if let Some(child) = child.as_object()
            && !child.is_empty()
        {
            list_paths(child, &format!("{prefix}{}", shown(element)), paths);
        }
    }
}

pub(super) fn shown(element: &str) -> String {
    match element.split_at_checked(2).unwrap_or((element, "")) {
        ("f:", name) => format!(".{name}"),
        ("v:", value) => format!("[={value}]"),
        ("k:", keys) => {
            let keys: Map<String, Value> = serde_json::from_str(keys).unwrap_or_default();
            let keys: Vec<String> =
                keys.iter().map(|(key, value)| format!("{key}={value}")).collect();
            format!("[{}]", keys.join(","))
        }
        (_, index) => format!("[{index}]"),
    }
}

#[cfg(test)]
mod tests;
