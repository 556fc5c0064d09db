//! Create.

use berth_apimachinery::status::{Result, Status};
use serde_json::{Value, json};

use super::{Resources, Writer, dry_run_record, metadata, no_namespace};
use crate::decode::name_of;
use crate::kinds::{self, Kind};
use crate::store::{Change, Guard, Key, Record, Store, Write, WriteError};

/// How many generated names are tried before a create fails.
const MAX_NAME_ATTEMPTS: usize = 8;

impl Resources {
    pub async fn create(
        &self,
        kind: &Kind,
        namespace: &str,
        object: Value,
        writer: &Writer,
    ) -> Result<Record> {
        let mut object = self.prepare_new(kind, namespace, object)?;
        let named = !name_of(&object).is_empty();
        let prefix = object["metadata"]["generateName"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if !named && !prefix.is_empty() {
            object["metadata"]["name"] = self.identities.name(&prefix).into();
        }
        self.accept_new(kind, &mut object, Some(writer))?;
        if named {
            return self.insert(kind, namespace, object, writer).await;
        }
        for _ in 1..MAX_NAME_ATTEMPTS {
            match self.insert(kind, namespace, object.clone(), writer).await {
                Err(status) if status.reason == "AlreadyExists" => {
                    object["metadata"]["name"] = self.identities.name(&prefix).into();
                }
                answer => return answer,
            }
        }
        self.insert(kind, namespace, object, writer).await
    }

    /// Sets the server's fields of a new object, and removes those that the client may not set.
    fn prepare_new(&self, kind: &Kind, namespace: &str, mut object: Value) -> Result<Value> {
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        if !object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default()
            .is_empty()
        {
            return Err(Status::unclassified(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let metadata = &mut object["metadata"];
        for field in metadata::SERVER_OWNED {
            metadata.as_object_mut().map(|m| m.remove(*field));
        }
        metadata["uid"] = self.identities.uid().into();
        metadata["creationTimestamp"] = self.now().into();
        if kind.generation {
            metadata["generation"] = 1.into();
        }
        if kind.namespaced {
            metadata["namespace"] = namespace.into();
        } else if let Some(metadata) = metadata.as_object_mut() {
            metadata.remove("namespace");
        }
        if kind.status
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
        Ok(object)
    }

    /// Sets defaults, then checks everything. `writer` owns what it wrote and the defaults, but not
    /// what the server adds after that.
    fn accept_new(&self, kind: &Kind, object: &mut Value, writer: Option<&Writer>) -> Result<()> {
        kind.default(object);
        self.admission.admit(&kind.group, &kind.plural, object);
        if let Some(writer) = writer {
            self.track(kind, None, object, writer);
        }
        kind.admit_create(object);
        let now = self.now();
        let change = kinds::Change {
            old: None,
            subresource: "",
            now: &now,
        };
        let mut errors = kind.check_metadata(object, None);
        errors.extend(kind.check(object, &change));
        if !errors.is_empty() {
            return Err(Status::invalid(kind.subject(), name_of(object), &errors));
        }
        kind.finish(object, &change);
        Ok(())
    }

    async fn insert(
        &self,
        kind: &Kind,
        namespace: &str,
        object: Value,
        writer: &Writer,
    ) -> Result<Record> {
        let key = self.key(kind, namespace, name_of(&object));
        if kind.namespaced {
            self.check_namespace(kind, namespace, &key.name)?;
        }
        self.commit_new(kind, key, object, writer).await
    }

    /// A server-side apply that creates ends here too: it has set its managed fields itself.
    pub(super) async fn commit_new(
        &self,
        kind: &Kind,
        key: Key,
        object: Value,
        writer: &Writer,
    ) -> Result<Record> {
        let draft = self.draft(kind, object)?;
        if writer.dry_run {
            return if self.store.get(&key).is_some() {
                Err(self.to_status(kind, &key, WriteError::Exists))
            } else {
                Ok(dry_run_record(&draft, None))
            };
        }
        let guard = kind.namespaced.then(|| Guard::NamespaceExists(key.namespace.clone()));
        let write = Write {
            key: key.clone(),
            change: Change::Create(draft),
            guard,
        };
        let committed = self.store.commit(write).await;
        committed.map_err(|refused| self.to_status(kind, &key, refused))
    }

    /// Prepares the object of an apply that creates.
    pub(super) fn prepare_applied(
        &self,
        kind: &Kind,
        namespace: &str,
        object: Value,
    ) -> Result<Value> {
        let mut object = self.prepare_new(kind, namespace, object)?;
        self.accept_new(kind, &mut object, None)?;
        Ok(object)
    }

    pub(super) fn check_namespace(&self, kind: &Kind, namespace: &str, name: &str) -> Result<()> {
        let found = self.store.get(&Key::new(Store::NAMESPACES, "", namespace));
        let record = found.ok_or_else(|| no_namespace(namespace))?;
        // The substring check saves the parse for nearly every create; the parse decides.
        if !metadata::mentions(&record.body, "deletionTimestamp") {
            return Ok(());
        }
        let object: Value = serde_json::from_slice(&record.body).unwrap_or_default();
        if object["metadata"]["deletionTimestamp"].is_null() {
            return Ok(());
        }
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let mut status = Status::forbidden(kind.subject(), name, &why);
        if let Some(details) = &mut status.details {
            let message = format!("namespace {namespace} is being terminated");
            details["causes"] = json!([{"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}]);
        }
        Err(status)
    }
}
