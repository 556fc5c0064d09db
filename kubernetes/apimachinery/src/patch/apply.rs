//! Server-side apply: a manager says what it wants, and gets what it wants or learns who else does.

mod check;
mod combine;

use serde_json::{Map, Value};

use super::field_set::{Change, FieldSet};
use super::managed_fields::{Entry, ManagedFields, Manager, Operation, take};
use crate::shape::Shape;
use crate::status::{Result, Status};

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The manager that takes over from client-side apply.
const KUBECTL: &str = "kubectl";

/// Merges `applied` into `live`, and removes what `manager` applied before and no longer does,
/// unless others own it too.
///
/// What differs from `live` and is owned by others is a conflict, unless `force` takes it from
/// them. What is equal is shared. Equal to `live` in all: nothing is to be written. The caller has
/// seen to it that `applied` is of this kind and version, and has taken out of it what this door
/// does not open (status on the main resource).
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
        take(&mut live);
        live
    });
    if managed.0.is_empty() && live.is_some() {
        let unknown =
            Manager::new("before-first-apply", Operation::Update, api_version, subresource);
        let mut change = Change::between(None, &before, shape);
        if subresource.is_empty() {
            change.written.forget("status");
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
        .map(|last| superfluous(&after, &last.fields, &fields, &managed, shape))
        .unwrap_or_default();
    gone.remove_from(&mut after, shape);
    let change = Change::between(Some(&before), &after, shape);
    gone.tidy(&mut after, shape);
    let mut conflicts = conflicts(&managed, &change);
    if manager == KUBECTL && !conflicts.is_empty() {
        let mine = from_last_applied(&before, shape, api_version);
        for (_, fields) in &mut conflicts {
            fields.subtract(&mine);
        }
        conflicts.retain(|(_, fields)| !fields.is_empty());
    }
    if !force && !conflicts.is_empty() {
        return Err(refusal(&conflicts));
    }

    for entry in &mut managed.0 {
        entry.fields.subtract(&change.written);
        entry.fields.subtract(&change.removed);
    }
    fields.strip();
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
        renew_last_applied(&mut after, applied);
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

/// What of `merged` is there because of `last` only: not applied again, and not owned by anybody
/// else.
fn superfluous(
    merged: &Value,
    last: &FieldSet,
    applied: &FieldSet,
    others: &ManagedFields,
    shape: &Shape,
) -> FieldSet {
    let last = last.clone().with_parents(shape);
    let mut remaining = merged.clone();
    last.remove_from(&mut remaining, shape);

    // What is below something of `last` went with it: what is owned comes back,
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

    // and what nobody owns stays, as it was not this manager's to remove.
    let mut gone = whole;
    gone.subtract(&FieldSet::of(&remaining, shape).with_parents(shape));
    gone.intersect(&last);
    gone
}

/// By manager: what would be taken from it.
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

fn refusal(conflicts: &[(&Manager, FieldSet)]) -> Status {
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

/// What client-side apply set and nobody has changed since: kubectl may take it over without a
/// conflict.
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

/// Somebody may go back to client-side apply: its annotation, where there is one, says what was
/// applied last.
fn renew_last_applied(object: &mut Value, applied: &Value) {
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
