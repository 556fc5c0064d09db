//! Update and patch, of an object or of its status.

use serde_json::Value;

use super::{Resources, Writer, imagined, metadata, name_of, under};
use crate::kinds::Kind;
use crate::rules;
use crate::store::{Change, Guard, Record, Refused, Write};
use berth_apimachinery::definition;
use berth_apimachinery::patch::{self, PatchKind};
use berth_apimachinery::status::{FieldError, Path, Result, Status, Subject};

/// Of these kinds an update makes what is not there yet.
fn made_by_update(kind: &Kind) -> bool {
    let kinds = [
        "ClusterRole",
        "ClusterRoleBinding",
        "Event",
        "Lease",
        "Role",
        "RoleBinding",
        "Service",
    ];
    kind.custom.is_none() && kinds.contains(&kind.kind.as_str())
}

/// The object after the write. `created`: an apply or an update that found nothing.
#[derive(Debug)]
pub struct Updated {
    pub record: Record,
    pub created: bool,
}

impl Updated {
    /// Of the answer.
    pub fn code(&self) -> u16 {
        if self.created { 201 } else { 200 }
    }

    fn changed(record: Record) -> Self {
        Self { record, created: false }
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
        let made = made_by_update(kind) && writer.subresource.is_empty();
        if made && self.store.get(&self.key(kind, namespace, name)).is_none() {
            // A version that it had before does not count any more.
            object["metadata"]["resourceVersion"] = Value::Null;
            let record = self.create(kind, namespace, object, writer).await?;
            return Ok(Updated { record, created: true });
        }
        let given = version_of(&object);
        let conditional = kind.custom.is_some() || matches!(kind.kind.as_str(), "CustomResourceDefinition" | "Lease");
        if given.is_none() && conditional {
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
            Ok(object.clone())
        });
        change.await
    }

    /// `check` decodes what the patch gave, as a body that was sent would be.
    pub async fn patch(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        patch: (PatchKind, Value),
        writer: &Writer,
        check: impl Fn(Value) -> Result<Value>,
    ) -> Result<Updated> {
        let (how, body) = patch;
        if how == PatchKind::Apply {
            return self.apply(kind, namespace, name, body, writer, check).await;
        }
        let changed = self
            .change(kind, namespace, name, writer, usize::MAX, |live| {
                let patched = match how {
                    PatchKind::Json => patch::json(live, &body)?,
                    PatchKind::Merge => patch::merge(live, &body)?,
                    PatchKind::Strategic => patch::strategic(live, &body, &kind.shape)?,
                    PatchKind::Apply => live.clone(),
                };
                let new = check(patched)?;
                check_number(version_of(&new).as_deref())?;
                let uid = &new["metadata"]["uid"];
                if uid.is_string() && *uid != live["metadata"]["uid"] {
                    let error = FieldError::invalid(Path::new("metadata.uid"), uid.clone(), "field is immutable");
                    return Err(Status::invalid(kind.subject(), name, &[error]));
                }
                // A version in the patch is a condition; one that the patch left alone equals the live one.
                if version_of(&new).as_deref() != live["metadata"]["resourceVersion"].as_str() {
                    return Err(Status::stale(kind.subject(), name));
                }
                Ok(new)
            })
            .await?;
        Ok(changed)
    }

    async fn apply(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        applied: Value,
        writer: &Writer,
        check: impl Fn(Value) -> Result<Value>,
    ) -> Result<Updated> {
        let mut applied = check(applied)?;
        confine_applied(kind, &mut applied, &writer.subresource);
        loop {
            let found = self.live(kind, namespace, name);
            let now = self.now();
            let version = kind.api_version();
            let merged = patch::apply(
                found.as_ref().ok().map(|(_, live)| live),
                &applied,
                &kind.shape,
                &writer.manager,
                &writer.subresource,
                writer.force,
                &version,
                &now,
            )?;
            let outcome = match found {
                Ok((_, live)) => {
                    if version_of(&applied)
                        .is_some_and(|given| Some(&*given) != live["metadata"]["resourceVersion"].as_str())
                    {
                        return Err(Status::stale(kind.subject(), name));
                    }
                    self.replace(kind, live, merged, writer, false).await
                }
                Err(missing) => {
                    if !writer.subresource.is_empty() {
                        return Err(missing);
                    }
                    if name_of(&applied).is_empty() {
                        return Err(Status::bad_request(format!(
                            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
                        )));
                    }
                    if version_of(&applied).is_some() {
                        return Err(Status::conflict(
                            kind.subject(),
                            name,
                            "resourceVersion must not be set for create",
                        ));
                    }
                    if kind.namespaced {
                        self.check_namespace(kind, namespace, name)?;
                    }
                    let managed = merged["metadata"]["managedFields"].clone();
                    let mut object = self.applied_new(kind, namespace, merged)?;
                    object["metadata"]["managedFields"] = managed;
                    let key = self.key(kind, namespace, name_of(&object));
                    match self.put_new(kind, key, object, writer).await {
                        Err(status) if status.reason == "AlreadyExists" => continue,
                        answer => {
                            return answer.map(|record| Updated { record, created: true });
                        }
                    }
                }
            };
            match outcome {
                Err(Lost::Race) => {}
                Err(lost) => return Err(lost.status(kind, name)),
                Ok(record) => return Ok(Updated::changed(record)),
            }
        }
    }

    /// Reads, computes, commits; again while others are faster, `attempts` times at most. Whoever loses knows that another has won: all
    /// together never stand still.
    pub(super) async fn change(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        writer: &Writer,
        attempts: usize,
        next: impl Fn(&Value) -> Result<Value>,
    ) -> Result<Updated> {
        for attempt in 1.. {
            let (_, live) = self.live(kind, namespace, name)?;
            let new = next(&live)?;
            match self.replace(kind, live, new, writer, true).await {
                Err(Lost::Race) if attempt < attempts => {}
                Err(lost) => return Err(lost.status(kind, name)),
                Ok(record) => return Ok(Updated::changed(record)),
            }
        }
        Err(Status::stale(kind.subject(), name))
    }

    /// From `live` to `new`, if `live` still is what is stored.
    async fn replace(
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
            let why = format!("Precondition failed: UID in precondition: {given}, UID in object meta: {uid}");
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
            patch::restore_times(&live, &mut new);
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
        // Who takes the last hold off is shown what that made; watchers see the object as it last stood.
        let shown = goes.then(|| draft.clone());
        let change = if goes {
            Change::Delete(version, self.draft(kind, live)?)
        } else {
            Change::Update(version, draft)
        };
        // A namespace goes only when nothing is in it: checked in the commit, so that no create can slip in before.
        let guard = (goes && kind.is("", "Namespace")).then(|| Guard::NamespaceEmpty(key.name.clone()));
        let write = Write {
            key: key.clone(),
            change,
            guard,
        };
        match self.store.commit(write).await {
            Ok(record) => Ok(under(record, shown)),
            Err(Refused::Stale) => Err(Lost::Race),
            Err(refused) => Err(self.refused(kind, &key, refused).into()),
        }
    }

    fn accept_change(&self, kind: &Kind, new: &mut Value, live: &Value, writer: &Writer) -> Result<()> {
        let mut errors = Vec::new();
        if let Some(custom) = &kind.custom {
            custom.rules.default(new);
        } else {
            rules::default(kind, new);
            rules::readmit(kind, new);
        }
        let counted = kind.generation || kind.custom.is_some();
        // What comes by `/status` or by a binding is not what somebody wants.
        let wished = matches!(writer.subresource.as_str(), "" | "scale");
        if counted && wished && metadata::wants_other(kind, new, live) {
            let generation = live["metadata"]["generation"].as_i64().unwrap_or_default();
            new["metadata"]["generation"] = (generation + 1).into();
        }
        errors.extend(rules::metadata(kind, new, Some(live)));
        errors.extend(metadata::new_finalizers(new, live));
        if let Some(custom) = &kind.custom {
            errors.extend(custom.rules.validate(new, Some(live)));
        } else if kind.kind == "CustomResourceDefinition" {
            definition::set_defaults(new);
            // Compiling a schema is dear; one that stands has been checked.
            let other = new["spec"] != live["spec"];
            if writer.subresource.is_empty() && other && !metadata::is_deleting(live) {
                errors.extend(definition::check(new, Some(live)));
                definition::established(new, &self.now());
            }
        } else {
            errors.extend(rules::update(kind, new, live, &writer.subresource));
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Status::invalid(kind.subject(), name_of(new), &errors))
        }
    }
}

enum Lost {
    /// Somebody else wrote in between.
    Race,
    Refused(Status),
}

impl Lost {
    fn status(self, kind: &Kind, name: &str) -> Status {
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
    // Controllers set annotations and the like of built-in kinds along with the status; nobody else's metadata goes this way.
    let open = kind.custom.is_none() && kind.kind != "CustomResourceDefinition";
    let managed = new["metadata"].get("managedFields").cloned();
    let mut fields: Vec<String> = new.as_object().into_iter().flatten().map(|(k, _)| k.clone()).collect();
    fields.extend(live.as_object().into_iter().flatten().map(|(k, _)| k.clone()));
    for field in fields {
        if field != "status" && !(open && field == "metadata") {
            keep(new, &field);
        }
    }
    let kept = match kind.kind.as_str() {
        "Deployment" => "/metadata/labels",
        "Pod" => "/metadata/ownerReferences",
        _ => "",
    };
    if let Some((parent, field)) = kept.rsplit_once('/').filter(|_| open)
        && let Some(fields) = new.pointer_mut(parent).and_then(Value::as_object_mut)
    {
        match live.pointer(kept) {
            Some(value) => drop(fields.insert(field.to_owned(), value.clone())),
            None => drop(fields.remove(field)),
        }
    }
    if kind.is("", "Pod") && new["status"]["qosClass"].is_null() {
        new["status"]["qosClass"] = live["status"]["qosClass"].clone();
    }
    if let Some(managed) = managed {
        new["metadata"]["managedFields"] = managed;
    }
}

/// Nobody comes to own what this door does not open. Built-in kinds let labels and the like in through `/status`, and drop them later.
fn confine_applied(kind: &Kind, applied: &mut Value, subresource: &str) {
    let Some(fields) = applied.as_object_mut().filter(|_| kind.status) else {
        return;
    };
    if subresource != "status" {
        fields.remove("status");
    } else if kind.custom.is_none() {
        fields.remove("spec");
    } else {
        fields.retain(|field, _| matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "status"));
        let metadata = fields.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(metadata) = metadata {
            metadata.retain(|field, _| matches!(field.as_str(), "name" | "namespace" | "uid" | "resourceVersion"));
        }
    }
}

/// A version is for clients to compare, but that it is a number the server knows.
fn check_number(version: Option<&str>) -> Result<()> {
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
