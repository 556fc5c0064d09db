//! The owners of fields: `metadata.managedFields`, and how writes other than apply change it.

use serde_json::{Map, Value};

use super::field_set::{Change, FieldSet};
use crate::shape::Shape;

/// If more managers than this update an object, the oldest share one entry.
const MAX_UPDATERS: usize = 10;
const ANCIENT_CHANGES: &str = "ancient-changes";
const FIELDS_TYPE: &str = "FieldsV1";

/// The variants are in the order by which entries are sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Operation {
    Apply,
    Update,
}

/// A field manager: the name, operation, version and subresource of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manager {
    pub name: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
}

impl Manager {
    pub fn new(name: &str, operation: Operation, api_version: &str, subresource: &str) -> Self {
        let name = if name.is_empty() { "unknown" } else { name };
        Self {
            name: name.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
        }
    }

    /// Whether both are the same manager. The version does not count for an apply.
    fn is(&self, other: &Self) -> bool {
        self.name == other.name
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub manager: Manager,
    pub time: Option<String>,
    pub fields: FieldSet,
}

impl Entry {
    fn parse(entry: Value) -> Option<Self> {
        let Value::Object(mut entry) = entry else {
            return None;
        };
        let mut text = |name: &str| match entry.remove(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        if text("fieldsType")? != FIELDS_TYPE {
            return None;
        }
        let operation = match text("operation")?.as_str() {
            "Apply" => Operation::Apply,
            "Update" => Operation::Update,
            _ => return None,
        };
        let manager = Manager {
            name: text("manager").unwrap_or_default(),
            operation,
            api_version: text("apiVersion").filter(|version| !version.is_empty())?,
            subresource: text("subresource").unwrap_or_default(),
        };
        let time = text("time");
        let fields = match entry.remove("fieldsV1") {
            None | Some(Value::Null) => FieldSet::default(),
            Some(fields) => FieldSet::parse(fields)?,
        };
        Some(Self { manager, time, fields })
    }

    fn into_value(self) -> Value {
        let operation = match self.manager.operation {
            Operation::Apply => "Apply",
            Operation::Update => "Update",
        };
        let mut entry = Map::new();
        entry.insert("apiVersion".to_owned(), self.manager.api_version.into());
        entry.insert("fieldsType".to_owned(), FIELDS_TYPE.into());
        entry.insert("fieldsV1".to_owned(), self.fields.into_value());
        entry.insert("manager".to_owned(), self.manager.name.into());
        entry.insert("operation".to_owned(), operation.into());
        if !self.manager.subresource.is_empty() {
            entry.insert("subresource".to_owned(), self.manager.subresource.into());
        }
        if let Some(time) = self.time {
            entry.insert("time".to_owned(), time.into());
        }
        Value::Object(entry)
    }
}

/// The entries of one object.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ManagedFields(pub Vec<Entry>);

impl ManagedFields {
    /// `None` if the list is invalid.
    pub fn parse(list: Value) -> Option<Self> {
        match list {
            Value::Array(entries) => {
                entries.into_iter().map(Entry::parse).collect::<Option<_>>().map(Self)
            }
            Value::Null => Some(Self::default()),
            _ => None,
        }
    }

    pub fn of(object: &Value) -> Self {
        let list = object
            .get("metadata")
            .and_then(|metadata| metadata.get("managedFields"));
        list.cloned().and_then(Self::parse).unwrap_or_default()
    }

    pub fn find(&mut self, manager: &Manager) -> Option<&mut Entry> {
        self.0.iter_mut().find(|entry| entry.manager.is(manager))
    }

    pub fn position(&self, manager: &Manager) -> Option<usize> {
        self.0.iter().position(|entry| entry.manager.is(manager))
    }

    /// Makes `manager` the only owner of the fields that its update has changed.
    pub fn update(&mut self, mut change: Change, manager: Manager, now: &str) {
        for entry in &mut self.0 {
            entry.fields.subtract(&change.written);
            entry.fields.subtract(&change.removed);
        }
        change.written.strip_meta();
        if !change.written.is_empty() {
            let time = Some(now.to_owned());
            match self.find(&manager) {
                Some(entry) => {
                    entry.fields.union(change.written);
                    entry.time = time;
                }
                None => self.0.push(Entry {
                    manager,
                    time,
                    fields: change.written,
                }),
            }
        }
        self.0.retain(|entry| !entry.fields.is_empty());
        self.cap();
    }

    fn cap(&mut self) {
        self.sort();
        let first = self
            .0
            .partition_point(|entry| entry.manager.operation == Operation::Apply);
        while self.0.len() - first > MAX_UPDATERS {
            let version = &self.0[first].manager.api_version;
            let rest = &self.0[first + 1..];
            let Some(next) = rest.iter().position(|entry| entry.manager.api_version == *version)
            else {
                return;
            };
            let younger = self.0.remove(first + 1 + next);
            let oldest = &mut self.0[first];
            oldest.fields.union(younger.fields);
            oldest.time = younger.time;
            oldest.manager =
                Manager::new(ANCIENT_CHANGES, Operation::Update, &younger.manager.api_version, "");
        }
    }

    pub fn sort(&mut self) {
        fn key(entry: &Entry) -> impl Ord + '_ {
            let Manager {
                name,
                operation,
                api_version,
                subresource,
            } = &entry.manager;
            (*operation, entry.time.as_deref(), name, api_version, subresource)
        }
        self.0.sort_by(|one, other| key(one).cmp(&key(other)));
    }

    pub fn store(mut self, object: &mut Value) {
        self.sort();
        if self.0.is_empty() {
            take_managed_fields(object);
        } else {
            let entries = self.0.into_iter().map(Entry::into_value).collect();
            let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
            metadata
                .map(|metadata| metadata.insert("managedFields".to_owned(), Value::Array(entries)));
        }
    }
}

/// Takes `metadata.managedFields` out of an object.
pub(super) fn take_managed_fields(object: &mut Value) -> Value {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    metadata
        .and_then(|metadata| metadata.remove("managedFields"))
        .unwrap_or_default()
}

/// Sets `managedFields` after a create (`old` is `None`), an update or a patch other than apply.
/// `new` is the object to store, with the managedFields that the client sent, if any. If nothing
/// has changed, the live entries stay as they are, times included.
pub fn track_update(
    old: Option<&Value>,
    new: &mut Value,
    shape: &Shape,
    manager: &str,
    subresource: &str,
    api_version: &str,
    now: &str,
) {
    let sent = take_managed_fields(new);
    let is_reset = match sent.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([only]) => only.as_object().is_some_and(Map::is_empty),
        _ => false,
    };
    let mut managed = match ManagedFields::parse(sent) {
        _ if is_reset && subresource.is_empty() => ManagedFields::default(),
        Some(sent) if subresource.is_empty() && !sent.0.is_empty() => sent,
        _ => old.map(ManagedFields::of).unwrap_or_default(),
    };
    // An object without owners, or whose owners a client has reset, has none until an apply.
    if !managed.0.is_empty() || old.is_none() {
        let mut change = Change::between(old, new, shape);
        change.removed.strip_meta();
        let manager = Manager::new(manager, Operation::Update, api_version, subresource);
        managed.update(change, manager, now);
    }
    managed.store(new);
}

/// Copies the times of `old` to `new` if they differ in nothing else, so that the write changes
/// nothing.
pub fn restore_times(old: &Value, new: &mut Value) {
    let list = |object: &Value| object["metadata"]["managedFields"].clone();
    let without_times = |mut list: Value| {
        for entry in list
            .as_array_mut()
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            entry.remove("time");
        }
        list
    };
    let (was, is) = (list(old), list(new));
    if was == is || without_times(was.clone()) != without_times(is.clone()) {
        return;
    }
    new["metadata"]["managedFields"] = was;
    if new != old {
        new["metadata"]["managedFields"] = is;
    }
}

#[cfg(test)]
mod tests;
