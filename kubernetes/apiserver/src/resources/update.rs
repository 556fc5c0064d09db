//! Update, of an object or of its status.

use berth_apimachinery::patch::restore_times;
use berth_apimachinery::status::{FieldError, Path, Result, Status, Subject};
use serde_json::Value;

use super::{Resources, Writer, imagined, metadata, under};
use crate::decode::{Decoded, name_of};
use crate::kinds::{self, Kind};
use crate::store::{Change, Guard, Record, Write, WriteError};

/// The object after the write. `created`: an apply or an update that found nothing.
#[derive(Debug)]
pub struct Updated {
    pub record: Record,
    pub created: bool,
    /// What the client should be told of its patch.
    pub warnings: Vec<String>,
}

impl Updated {
    /// Of the answer.
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
        let made = kind.is_made_by_update() && writer.subresource.is_empty();
        if made && self.store.get(&self.key(kind, namespace, name)).is_none() {
            // A version that it had before does not count any more.
            object["metadata"]["resourceVersion"] = Value::Null;
            let record = self.create(kind, namespace, object, writer).await?;
            return Ok(Updated::new(record, true, Vec::new()));
        }
        let given = version_of(&object);
        if given.is_none() && kind.needs_version() {
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

    /// Reads, computes, commits; again while others are faster, `attempts` times at most. Whoever
    /// loses knows that another has won: all together never stand still.
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
                Err(Lost::Race) if attempt < attempts => {}
                Err(lost) => return Err(lost.status(kind, name)),
                Ok(record) => return Ok(Updated::new(record, false, warnings)),
            }
        }
        Err(Status::stale(kind.subject(), name))
    }

    /// From `live` to `new`, if `live` still is what is stored.
    pub(super) async fn replace(
        &self,
        kind: &Kind,
        live: Value,
        mut new: Value,
        writer: &Writer,
        track: bool,
    ) -> Result<Record, Lost> {
        let name = name_of(&live);
        let given = new["metadata"]["uid"].as_str().unwrap_or_default();
        let uid = live["metadata"]["uid"].as_str().unwrap_or_default();
        if !given.is_empty() && given != uid {
            let why = format!(
                "Precondition failed: UID in precondition: {given}, UID in object meta: {uid}"
            );
            return Err(Status::conflict(kind.subject(), name, why).into());
        }
        confine(kind, &mut new, &live, &writer.subresource);
        let forged = metadata::forged(&new, &live);
        if !forged.is_empty() {
            return Err(Status::invalid(kind.subject(), name, &forged).into());
        }
        metadata::keep(&mut new, &live);
        self.accept_change(kind, &mut new, &live, writer)?;
        // A binding is nobody's field to manage.
        if track && writer.subresource != "binding" {
            self.track(kind, Some(&live), &mut new, writer);
        } else {
            restore_times(&live, &mut new);
        }
        let namespace = live["metadata"]["namespace"].as_str().unwrap_or_default();
        let key = self.key(kind, namespace, name);
        let version = version_of(&live).and_then(|v| v.parse().ok()).unwrap_or_default();
        let goes = metadata::can_go(kind, &new);
        if new == live && !goes {
            return self.get(kind, &key.namespace, &key.name).map_err(Lost::Refused);
        }
        let draft = self.draft(kind, new)?;
        if writer.dry_run {
            return Ok(imagined(&draft, Some(version)));
        }
        // Who takes the last hold off is shown what that made; watchers see the object as it last
        // stood.
        let shown = goes.then(|| draft.clone());
        let change = if goes {
            Change::Delete(version, self.draft(kind, live)?)
        } else {
            Change::Update(version, draft)
        };
        // A namespace goes only when nothing is in it: checked in the commit, so that no create can
        // slip in before.
        let guard = (goes && kind.deletion().needs_empty_namespace)
            .then(|| Guard::NamespaceEmpty(key.name.clone()));
        let write = Write {
            key: key.clone(),
            change,
            guard,
        };
        match self.store.commit(write).await {
            Ok(record) => Ok(under(record, shown)),
            Err(WriteError::Stale) => Err(Lost::Race),
            Err(refused) => Err(self.refused(kind, &key, refused).into()),
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
        kind.readmit(new);
        // What comes by `/status` or by a binding is not what somebody wants.
        let is_wanted = matches!(writer.subresource.as_str(), "" | "scale");
        if kind.generation && is_wanted && kind.wants_other(new, live) {
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
        errors.extend(metadata::new_finalizers(new, live));
        errors.extend(kind.check(new, &change));
        if !errors.is_empty() {
            return Err(Status::invalid(kind.subject(), name_of(new), &errors));
        }
        kind.finish(new, &change);
        Ok(())
    }
}

pub(super) enum Lost {
    /// Somebody else wrote in between.
    Race,
    Refused(Status),
}

impl Lost {
    pub(super) fn status(self, kind: &Kind, name: &str) -> Status {
        match self {
            Self::Race => Status::stale(kind.subject(), name),
            Self::Refused(status) => status,
        }
    }
}

impl From<Status> for Lost {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

/// A main resource can't touch its status, nor `/status` anything else.
fn confine(kind: &Kind, new: &mut Value, live: &Value, subresource: &str) {
    if !kind.status {
        return;
    }
    let keep = |new: &mut Value, field: &str| match live.get(field) {
        Some(value) => new[field] = value.clone(),
        None => drop(new.as_object_mut().map(|fields| fields.remove(field))),
    };
    match subresource {
        "status" => {}
        // A binding sets the node and the condition that says so in one write.
        "binding" => return,
        _ => return keep(new, "status"),
    }
    // Controllers set annotations and the like of built-in kinds along with the status; nobody
    // else's metadata goes this way.
    let open = kind.opens_metadata();
    let managed = new["metadata"].get("managedFields").cloned();
    let mut fields: Vec<String> =
        new.as_object().into_iter().flatten().map(|(k, _)| k.clone()).collect();
    fields.extend(live.as_object().into_iter().flatten().map(|(k, _)| k.clone()));
    for field in fields {
        if field != "status" && !(open && field == "metadata") {
            keep(new, &field);
        }
    }
    kind.confine_status(new, live);
    if let Some(managed) = managed {
        new["metadata"]["managedFields"] = managed;
    }
}

/// A version is for clients to compare, but that it is a number the server knows.
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
