//! Operations on objects, independent of HTTP: create, update, patch, delete, with the rules that
//! hold for every kind.
//!
//! Every write reads the live object, computes the next one without side effects, and commits it
//! if the live object is still the same. After a conflict it starts again, unless the caller named
//! a resourceVersion.

mod create;
mod delete;
mod identities;
mod metadata;
mod patch;
mod scale;
mod subresources;
mod update;

pub use delete::{DeleteOptions, Deleted, FOREGROUND, ORPHAN, Propagation};
pub use identities::Identities;
pub use metadata::{mentions, without_finalizer};
pub use patch::Patch;
pub use scale::{NewScale, scale};
pub use update::Updated;

use berth_apimachinery::patch::track_update;
use berth_apimachinery::status::{Result, Status};
use berth_kit::clock::Clock;
use serde_json::Value;

use crate::admission::Admission;
use crate::decode::name_of;
use crate::kinds::Kind;
use crate::registry::Registry;
use crate::store::{Draft, Key, Record, Store, WriteError};

#[derive(Debug)]
pub struct Resources {
    pub store: Store,
    pub registry: Registry,
    pub clock: Clock,
    pub identities: Identities,
    pub admission: Admission,
}

/// Who writes, and how.
#[derive(Clone, Debug, Default)]
pub struct Writer {
    /// Field manager.
    pub manager: String,
    pub dry_run: bool,
    /// Server-side apply: take fields that others own.
    pub force: bool,
    /// The subresource, such as `status`; empty for the main resource.
    pub subresource: String,
}

impl Writer {
    /// The server's own loops.
    pub fn server() -> Self {
        Self {
            manager: "berth".to_owned(),
            ..Self::default()
        }
    }
}

/// etcd's default limit. Larger objects could not be moved to a real cluster.
const LARGEST_OBJECT: usize = 3 << 19;

impl Resources {
    pub fn new(store: Store, clock: Clock, identities: Identities, admission: Admission) -> Self {
        Self {
            registry: Registry::new(store.clone()),
            store,
            clock,
            identities,
            admission,
        }
    }

    pub fn key(&self, kind: &Kind, namespace: &str, name: &str) -> Key {
        Key::new(&kind.table(), namespace, name)
    }

    pub fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Record> {
        self.store
            .get(&self.key(kind, namespace, name))
            .ok_or_else(|| Status::not_found(kind.subject(), name))
    }

    /// The live object in the form that this kind serves.
    fn live(&self, kind: &Kind, namespace: &str, name: &str) -> Result<(u64, Value)> {
        let record = self.get(kind, namespace, name)?;
        Ok((record.version, self.decode(kind, &record)?))
    }

    pub fn decode(&self, kind: &Kind, record: &Record) -> Result<Value> {
        let mut object: Value = serde_json::from_slice(&record.body).map_err(Status::internal)?;
        kind.conversion.to_served(&mut object, &kind.api_version());
        Ok(object)
    }

    /// The bytes to store, or why they can't be.
    fn draft(&self, kind: &Kind, mut object: Value) -> Result<Draft> {
        kind.conversion.to_stored(&mut object);
        let draft = Draft::new(&mut object);
        if draft.size() > LARGEST_OBJECT {
            return Err(Status::unclassified(format!(
                "etcdserver: request is too large: {} {:?} has {} bytes, at most \
                 {LARGEST_OBJECT} can be stored",
                kind.kind,
                name_of(&object),
                draft.size()
            )));
        }
        Ok(draft)
    }

    fn to_status(&self, kind: &Kind, key: &Key, error: WriteError) -> Status {
        match error {
            WriteError::Exists => Status::already_exists(kind.subject(), &key.name),
            WriteError::Missing => Status::not_found(kind.subject(), &key.name),
            WriteError::Stale | WriteError::NotEmpty => Status::stale(kind.subject(), &key.name),
            WriteError::NoNamespace => no_namespace(&key.namespace),
            WriteError::Failed(why) => Status::internal(why),
        }
    }

    /// Updates `managedFields` after a write other than apply.
    fn track(&self, kind: &Kind, live: Option<&Value>, new: &mut Value, writer: &Writer) {
        let (version, now) = (kind.api_version(), self.now());
        let (manager, subresource) = (&writer.manager, &writer.subresource);
        track_update(live, new, &kind.shape, manager, subresource, &version, &now);
    }

    fn now(&self) -> String {
        self.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
    }
}

/// The record that a dry run answers with. Nothing was stored, so the version is that of the live
/// object, or none.
fn dry_run_record(draft: &Draft, version: Option<u64>) -> Record {
    let body = match version {
        Some(version) => draft.filled(&version.to_string()),
        None => {
            let mut object: Value = serde_json::from_slice(&draft.filled("")).unwrap_or_default();
            object["metadata"]
                .as_object_mut()
                .map(|metadata| metadata.remove("resourceVersion"));
            object.to_string().into()
        }
    };
    Record {
        version: version.unwrap_or_default(),
        body,
    }
}

/// The record with the body of `shown`, if given, under the record's version.
fn with_body(record: Record, shown: Option<Draft>) -> Record {
    let body = match shown {
        Some(draft) => draft.filled(&record.version.to_string()),
        None => record.body,
    };
    Record { body, ..record }
}

fn no_namespace(name: &str) -> Status {
    let subject = berth_apimachinery::status::Subject {
        group: "",
        resource: "namespaces",
        kind: "Namespace",
    };
    Status::not_found(subject, name)
}
