//! Update, of an object or of its status.

use berth_apimachinery::patch::restore_times;
use berth_apimachinery::status::{FieldError, Path, Result, Status, Subject};
use serde_json::Value;

use super::{Resources, Writer, dry_run_record, metadata, with_body};
use crate::decode::{Decoded, name_of};
use crate::kinds::{self, Kind};
use crate::store::{Change, Guard, Record, Write, WriteError};

/// The object after the write. `created`: the apply or update has created it.
#[derive(Debug)]
pub struct Updated {
    pub record: Record,
    pub created: bool,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}

impl Updated {
    /// The HTTP status code of the answer.
    pub fn code(&self) -> u16 {
        if self.created { 201 } else { 200 }
    }

    pub(super) fn new(record: Record, created: bool, warnings: Vec<String>) -> Self {
        Self {
            record,
            created,
            warnings,
        }
    }
}

impl Resources {
    pub async fn update(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        mut object: Value,
        writer: &Writer,
    ) -> Result<Updated> {
        let made = kind.allows_create_on_update() && writer.subresource.is_empty();
        if made && self.store.get(&self.key(kind, namespace, name)).is_none() {
            // The version of an earlier object of this name does not count any more.
            object["metadata"]["resourceVersion"] = Value::Null;
            let record = self.create(kind, namespace, object, writer).await?;
            return Ok(Updated::new(record, true, Vec::new()));
        }
        let given = version_of(&object);
        if given.is_none() && kind.needs_resource_version() {
            self.get(kind, namespace, name)?;
            let field = Path::new("metadata.resourceVersion");
            let error = FieldError::invalid(field, 0.into(), "must be specified for an update");
            let subject = Subject {
                kind: &kind.plural,
                ..kind.subject()
            };
            return Err(Status::invalid(subject, name, &[error]));
        }
        check_number(given.as_deref())?;
        let attempts = if given.is_some() { 1 } else { usize::MAX };
        let change = self.change(kind, namespace, name, writer, attempts, |live| {
            if given
                .as_deref()
                .is_some_and(|given| Some(given) != live["metadata"]["resourceVersion"].as_str())
            {
                return Err(Status::stale(kind.subject(), name));
            }
            Ok(object.clone().into())
        });
        change.await
    }

    /// Reads, computes, commits; starts again after a conflict, `attempts` times at most. Each
    /// conflict means that another write has succeeded, so there is always progress.
    pub(super) async fn change(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        writer: &Writer,
        attempts: usize,
        next: impl Fn(&Value) -> Result<Decoded>,
    ) -> Result<Updated> {
        for attempt in 1.. {
            let (_, live) = self.live(kind, namespace, name)?;
            let Decoded { object, warnings } = next(&live)?;
            match self.replace(kind, live, object, writer, true).await {
                Err(ReplaceError::Conflict) if attempt < attempts => {}
                Err(error) => return Err(error.status(kind, name)),
                Ok(record) => return Ok(Updated::new(record, false, warnings)),
            }
        }
        Err(Status::stale(kind.subject(), name))
    }

    /// Replaces `live` by `new`, if `live` is still what is stored.
    pub(super) async fn replace(
        &self,
        kind: &Kind,
        live: Value,
        mut new: Value,
        writer: &Writer,
        track: bool,
    ) -> Result<Record, ReplaceError> {
        let name = name_of(&live);
        let given = new["metadata"]["uid"].as_str().unwrap_or_default();
        let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
        if !given.is_empty() && given != uid {
            let why = format!(
                "Precondition failed: UID in precondition: {given}, UID in object meta: {uid}"
            );
            return Err(Status::conflict(kind.subject(), name, why).into());
        }
        reset_fields(kind, &mut new, &live, &writer.subresource);
        let errors = metadata::check_deletion_fields(&new, &live);
        if !errors.is_empty() {
            return Err(Status::invalid(kind.subject(), name, &errors).into());
        }
        metadata::restore_server_fields(&mut new, &live);
        self.accept_change(kind, &mut new, &live, writer)?;
        // Nobody owns the fields that a binding sets.
        if track && writer.subresource != "binding" {
            self.track(kind, Some(&live), &mut new, writer);
        } else {
            restore_times(&live, &mut new);
        }
        let namespace = live["metadata"]["namespace"].as_str().unwrap_or_default();
        let key = self.key(kind, namespace, name);
        let version = version_of(&live).and_then(|v| v.parse().ok()).unwrap_or_default();
        let removes = metadata::can_be_removed(kind, &new);
        if new == live && !removes {
            return self.get(kind, &key.namespace, &key.name).map_err(ReplaceError::Refused);
        }
        let draft = self.draft(kind, new)?;
        if writer.dry_run {
            return Ok(dry_run_record(&draft, Some(version)));
        }
        // The client that removes the last finalizer gets its new object. Watchers see the object
        // as it was stored.
        let shown = removes.then(|| draft.clone());
        let change = if removes {
            Change::Delete(version, self.draft(kind, live)?)
        } else {
            Change::Update(version, draft)
        };
        // A namespace goes only when it is empty. The commit checks that, so no create can come in
        // between.
        let guard = (removes && kind.deletion().needs_empty_namespace)
            .then(|| Guard::NamespaceEmpty(key.name.clone()));
        let write = Write {
            key: key.clone(),
            change,
            guard,
        };
        match self.store.commit(write).await {
            Ok(record) => Ok(with_body(record, shown)),
            Err(WriteError::Stale) => Err(ReplaceError::Conflict),
            Err(refused) => Err(self.to_status(kind, &key, refused).into()),
        }
    }

    fn accept_change(
        &self,
        kind: &Kind,
        new: &mut Value,
        live: &Value,
        writer: &Writer,
    ) -> Result<()> {
        kind.default(new);
        kind.admit_update(new);
        // A write to `/status` or a binding does not change what a user asked for.
        let is_wanted = matches!(writer.subresource.as_str(), "" | "scale");
        if kind.generation && is_wanted && kind.bumps_generation(new, live) {
            let generation = live["metadata"]["generation"].as_i64().unwrap_or_default();
            new["metadata"]["generation"] = (generation + 1).into();
        }
        let now = self.now();
        let change = kinds::Change {
            old: Some(live),
            subresource: &writer.subresource,
            now: &now,
        };
        let mut errors = kind.check_metadata(new, Some(live));
        errors.extend(metadata::check_new_finalizers(new, live));
        errors.extend(kind.check(new, &change));
        if !errors.is_empty() {
            return Err(Status::invalid(kind.subject(), name_of(new), &errors));
        }
        kind.finish(new, &change);
        Ok(())
    }
}

pub(super) enum ReplaceError {
    /// Another write came in between.
    Conflict,
    Refused(Status),
}

impl ReplaceError {
    pub(super) fn status(self, kind: &Kind, name: &str) -> Status {
        match self {
            Self::Conflict => Status::stale(kind.subject(), name),
            Self::Refused(status) => status,
        }
    }
}

impl From<Status> for ReplaceError {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

/// Restores the fields that this endpoint can't change: the status for the main resource, all else
/// for `/status`.
fn reset_fields(kind: &Kind, new: &mut Value, live: &Value, subresource: &str) {
    if !kind.status {
        return;
    }
    let restore = |new: &mut Value, field: &str| match live.get(field) {
        Some(value) => new[field] = value.clone(),
        None => drop(new.as_object_mut().map(|fields| fields.remove(field))),
    };
    match subresource {
        "status" => {}
        // A binding sets the node and the PodScheduled condition in one write.
        "binding" => return,
        _ => return restore(new, "status"),
    }
    // Controllers of built-in kinds set annotations and the like along with the status. Other
    // kinds keep their metadata.
    let open = kind.status_updates_metadata();
    let managed = new["metadata"].get("managedFields").cloned();
    let mut fields: Vec<String> =
        new.as_object().into_iter().flatten().map(|(k, _)| k.clone()).collect();
    fields.extend(live.as_object().into_iter().flatten().map(|(k, _)| k.clone()));
    for field in fields {
        if field != "status" && !(open && field == "metadata") {
            restore(new, &field);
        }
    }
    kind.reset_on_status_update(new, live);
    if let Some(managed) = managed {
        new["metadata"]["managedFields"] = managed;
    }
}

/// A resourceVersion is opaque to clients, but the server refuses one that is not a number.
pub(super) fn check_number(version: Option<&str>) -> Result<()> {
    match version {
        Some(given) if given.parse::<u64>().is_err() => {
            let why = format!("strconv.ParseUint: parsing {given:?}: invalid syntax");
            Err(Status::unclassified(why))
        }
        _ => Ok(()),
    }
}

pub(super) fn version_of(object: &Value) -> Option<String> {
    let version = object["metadata"]["resourceVersion"].as_str()?;
    (!version.is_empty()).then(|| version.to_owned())
}
