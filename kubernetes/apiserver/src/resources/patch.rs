//! The four kinds of PATCH.

use berth_apimachinery::patch::{self, PatchKind, apply};
use berth_apimachinery::status::{FieldError, Path, Result, Status};
use serde_json::Value;

use super::update::{ReplaceError, Updated, check_number, version_of};
use super::{Resources, Writer};
use crate::decode::{self, Decoded, FieldValidation, Sent, name_of};
use crate::kinds::Kind;

/// A patch as it was sent.
#[derive(Debug)]
pub struct Patch {
    pub kind: PatchKind,
    pub sent: Sent,
    pub validation: FieldValidation,
}

impl Patch {
    /// Decodes the patched object as strictly as a body from a client.
    fn decode(&self, kind: &Kind, value: Value) -> Result<Decoded> {
        let duplicates = self.sent.duplicates.clone();
        decode::decode_object(kind, Sent { value, duplicates }, self.validation)
    }
}

impl Resources {
    pub async fn patch(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        patch: &Patch,
        writer: &Writer,
    ) -> Result<Updated> {
        if patch.kind == PatchKind::Apply {
            return self.apply(kind, namespace, name, patch, writer).await;
        }
        let next = |live: &Value| {
            let body = &patch.sent.value;
            let patched = match patch.kind {
                PatchKind::Json => patch::json(live, body)?,
                PatchKind::Merge | PatchKind::Apply => patch::merge(live, body)?,
                PatchKind::Strategic => patch::strategic(live, body, &kind.shape)?,
            };
            let decoded = patch.decode(kind, patched).map_err(|status| {
                if status.code != 400 {
                    return status;
                }
                let error = FieldError::invalid(Path::new("patch"), Value::Null, status.message);
                Status::invalid(kind.subject(), name, &[error])
            })?;
            let new = &decoded.object;
            decode::check_name_and_namespace(kind, namespace, name, new)?;
            check_number(version_of(new).as_deref())?;
            let uid = &new["metadata"]["uid"];
            if uid.is_string() && *uid != live["metadata"]["uid"] {
                let field = Path::new("metadata.uid");
                let error = FieldError::immutable(field, uid);
                return Err(Status::invalid(kind.subject(), name, &[error]));
            }
            // A resourceVersion in the patch is a precondition. Without one, the patched object
            // has the live version.
            if version_of(new).as_deref() != live["metadata"]["resourceVersion"].as_str() {
                return Err(Status::stale(kind.subject(), name));
            }
            Ok(decoded)
        };
        self.change(kind, namespace, name, writer, usize::MAX, next).await
    }

    async fn apply(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        patch: &Patch,
        writer: &Writer,
    ) -> Result<Updated> {
        let decoded = patch.decode(kind, patch.sent.value.clone())?;
        let Decoded {
            object: mut applied,
            warnings,
        } = decoded;
        reset_applied_fields(kind, &mut applied, &writer.subresource);
        loop {
            let found = self.live(kind, namespace, name);
            let now = self.now();
            let version = kind.api_version();
            let merged = apply(
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
                    if version_of(&applied).is_some_and(|given| {
                        Some(&*given) != live["metadata"]["resourceVersion"].as_str()
                    }) {
                        return Err(Status::stale(kind.subject(), name));
                    }
                    self.replace(kind, live, merged, writer, false).await
                }
                Err(missing) => {
                    if !writer.subresource.is_empty() {
                        return Err(missing);
                    }
                    if name_of(&applied).is_empty() {
                        return Err(decode::name_required(name));
                    }
                    // A client that sends a UID means an existing object.
                    if let Some(uid) = applied["metadata"]["uid"].as_str() {
                        let why = format!(
                            "uid mismatch: the provided object specified uid {uid}, and no \
                             existing object was found"
                        );
                        return Err(Status::conflict(kind.subject(), name, why));
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
                    let mut object = self.prepare_applied(kind, namespace, merged)?;
                    object["metadata"]["managedFields"] = managed;
                    let key = self.key(kind, namespace, name_of(&object));
                    match self.commit_new(kind, key, object, writer).await {
                        Err(status) if status.reason == "AlreadyExists" => continue,
                        answer => {
                            return answer.map(|record| Updated::new(record, true, warnings));
                        }
                    }
                }
            };
            match outcome {
                Err(ReplaceError::Conflict) => {}
                Err(error) => return Err(error.status(kind, name)),
                Ok(record) => return Ok(Updated::new(record, false, warnings)),
            }
        }
    }
}

/// Removes fields that this endpoint can't change, so that the applier does not own them. Built-in
/// kinds accept labels and the like through `/status`, and drop them later.
fn reset_applied_fields(kind: &Kind, applied: &mut Value, subresource: &str) {
    let Some(fields) = applied.as_object_mut().filter(|_| kind.status) else {
        return;
    };
    if subresource != "status" {
        fields.remove("status");
    } else if !kind.is_custom() {
        fields.remove("spec");
    } else {
        fields.retain(|field, _| {
            matches!(field.as_str(), "apiVersion" | "kind" | "metadata" | "status")
        });
        let metadata = fields.get_mut("metadata").and_then(Value::as_object_mut);
        if let Some(metadata) = metadata {
            metadata.retain(|field, _| {
                matches!(field.as_str(), "name" | "namespace" | "uid" | "resourceVersion")
            });
        }
    }
}
