//! Server-side apply: a manager sets its fields, or gets a conflict that names their other owners.

mod check;
mod combine;

use serde_json::{Map, Value};

use super::field_set::{Change, FieldSet};
use super::managed_fields::{Entry, ManagedFields, Manager, Operation, take_managed_fields};
use crate::shape::Shape;
use crate::status::{Result, Status};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The manager that takes over from client-side apply.
const KUBECTL: &str = "kubectl";

/// Merges `applied` into `live`, and removes what `manager` applied before and no longer does,
/// unless others own it too.
///
/// A field that differs from `live` and has other owners is a conflict, unless `force` takes it
/// from them. An equal field is shared. If the result equals `live`, there is nothing to write. The
/// caller has checked that `applied` is of this kind and version, and has removed fields that the
/// endpoint can't change (status on the main resource).
#[expect(
    clippy::too_many_arguments,
    reason = "each is a plain part of the request, and there is one caller"
)]
pub fn apply(
    live: Option<&Value>,
    applied: &Value,
    shape: &Shape,
    manager: &str,
    subresource: &str,
    force: bool,
    api_version: &str,
    now: &str,
) -> Result<Value> {
    if !applied["metadata"]["managedFields"].is_null() {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    check::configuration(applied, shape).map_err(|problem| {
        Status::unclassified(format!(
            "failed to create typed patch object ({}): {problem}",
            named(applied)
        ))
    })?;
    let mut managed = live.map(ManagedFields::of).unwrap_or_default();
    let before = live.cloned().map_or(Value::Object(Map::new()), |mut live| {
        take_managed_fields(&mut live);
        live
    });
    if managed.0.is_empty() && live.is_some() {
        let unknown =
            Manager::new("before-first-apply", Operation::Update, api_version, subresource);
        let mut change = Change::between(None, &before, shape);
        if subresource.is_empty() {
            change.written.remove_field("status");
        }
        managed.update(change, unknown, now);
    }

    let me = Manager::new(manager, Operation::Apply, api_version, subresource);
    let mut fields = FieldSet::of(applied, shape);
    let mut after = before.clone();
    combine::merge(&mut after, applied, shape);
    let last = managed.position(&me).map(|index| managed.0.remove(index));
    let gone = last
        .as_ref()
        .map(|last| no_longer_applied(&after, &last.fields, &fields, &managed, shape))
        .unwrap_or_default();
    gone.remove_from(&mut after, shape);
    let change = Change::between(Some(&before), &after, shape);
    gone.remove_empty(&mut after, shape);
    let mut conflicts = conflicts(&managed, &change);
    if manager == KUBECTL && !conflicts.is_empty() {
        let mine = from_last_applied(&before, shape, api_version);
        for (_, fields) in &mut conflicts {
            fields.subtract(&mine);
        }
        conflicts.retain(|(_, fields)| !fields.is_empty());
    }
    if !force && !conflicts.is_empty() {
        return Err(conflict_error(&conflicts));
    }

    for entry in &mut managed.0 {
        entry.fields.subtract(&change.written);
        entry.fields.subtract(&change.removed);
    }
    fields.strip_meta();
    let time = if after == before {
        last.and_then(|last| last.time)
    } else {
        Some(now.to_owned())
    };
    managed.0.push(Entry {
        manager: me,
        time,
        fields,
    });
    managed.0.retain(|entry| !entry.fields.is_empty());
    if manager == KUBECTL {
        update_last_applied(&mut after, applied);
    }
    managed.store(&mut after);
    Ok(after)
}

/// `default/web; apps/v1, Kind=Deployment`
fn named(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let version = text(&object["apiVersion"]);
    let slash = if version.contains('/') { "" } else { "/" };
    let (namespace, name) = (
        text(&object["metadata"]["namespace"]),
        text(&object["metadata"]["name"]),
    );
    format!("{namespace}/{name}; {slash}{version}, Kind={}", text(&object["kind"]))
}

/// The fields of `merged` to remove: `last` applied them, `applied` does not, and they have no
/// other owner.
fn no_longer_applied(
    merged: &Value,
    last: &FieldSet,
    applied: &FieldSet,
    others: &ManagedFields,
    shape: &Shape,
) -> FieldSet {
    let last = last.clone().with_parents(shape);
    let mut remaining = merged.clone();
    last.remove_from(&mut remaining, shape);

    // Removing `last` also removed everything below its fields. Owned fields come back,
    let whole = FieldSet::of(merged, shape).with_parents(shape);
    let mut owned = applied.clone();
    for entry in &others.0 {
        owned.union(entry.fields.clone());
    }
    let mut gone = whole.clone();
    gone.subtract(&FieldSet::of(&remaining, shape).with_parents(shape));
    gone.subtract(&owned.with_parents(shape));
    let mut remaining = merged.clone();
    gone.remove_from(&mut remaining, shape);

    // and fields without an owner stay, since they were not this manager's to remove.
    let mut gone = whole;
    gone.subtract(&FieldSet::of(&remaining, shape).with_parents(shape));
    gone.intersect(&last);
    gone
}

/// The fields that each other manager would lose.
fn conflicts<'a>(others: &'a ManagedFields, change: &Change) -> Vec<(&'a Manager, FieldSet)> {
    let mut conflicts = Vec::new();
    for entry in &others.0 {
        let mut fields = entry.fields.clone();
        fields.intersect(&change.written);
        if !fields.is_empty() {
            conflicts.push((&entry.manager, fields));
        }
    }
    conflicts.sort_by_key(|(manager, _)| (&manager.name, manager.operation, &manager.api_version));
    conflicts
}

fn conflict_error(conflicts: &[(&Manager, FieldSet)]) -> Status {
    let mut causes = Vec::new();
    let mut lines = Vec::new();
    for (manager, fields) in conflicts {
        let mut who = format!("{:?}", manager.name);
        if !manager.subresource.is_empty() {
            who.push_str(&format!(" with subresource {:?}", manager.subresource));
        }
        if manager.operation == Operation::Update {
            who.push_str(&format!(" using {}", manager.api_version));
        }
        lines.push(format!("conflicts with {who}:"));
        for path in fields.paths() {
            lines.push(format!("- {path}"));
            causes.push((format!("conflict with {who}"), path));
        }
    }
    Status::apply_conflict(causes, &lines.join("\n"))
}

/// The fields that client-side apply set and that have not changed since. kubectl may take them
/// over without a conflict.
fn from_last_applied(live: &Value, shape: &Shape, api_version: &str) -> FieldSet {
    let text = live["metadata"]["annotations"][LAST_APPLIED]
        .as_str()
        .unwrap_or_default();
    let Ok(last) = serde_json::from_str::<Value>(text) else {
        return FieldSet::default();
    };
    if last["apiVersion"] != api_version {
        return FieldSet::default();
    }
    let mut fields = FieldSet::of(&last, shape);
    let change = Change::between(Some(&last), live, shape);
    fields.subtract(&change.written);
    fields.subtract(&change.removed);
    fields
}

/// Updates the annotation of client-side apply, if there is one, so that a user can go back to it.
fn update_last_applied(object: &mut Value, applied: &Value) {
    let annotation = object
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations")?.get_mut(LAST_APPLIED));
    let Some(annotation) =
        annotation.filter(|text| text.as_str().is_some_and(|text| !text.is_empty()))
    else {
        return;
    };
    let mut applied = applied.clone();
    let annotations = applied
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations")?.as_object_mut());
    if let Some(annotations) = annotations {
        annotations.remove(LAST_APPLIED);
    }
    *annotation = format!("{applied}\n").into();
}

#[cfg(test)]
mod tests;
