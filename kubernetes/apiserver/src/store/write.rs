//! Writes before their commit.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use serde_json::Value;

use super::history::{EventKind, line_of_parts};
use super::record::Key;

/// JSON with a gap for its resourceVersion, which is known only at the commit.
#[derive(Clone, Debug)]
pub struct Draft {
    before: Bytes,
    after: Bytes,
}

impl Draft {
    pub fn new(object: &mut Value) -> Self {
        // Random, so that no client's data can contain it.
        static MARKER: LazyLock<String> = LazyLock::new(|| uuid::Uuid::new_v4().to_string());
        object["metadata"]["resourceVersion"] = Value::String(MARKER.clone());
        // Not `to_string`: that is slower, since it goes through the formatter.
        let body = serde_json::to_string(object).unwrap_or_default();
        let at = body.find(&*MARKER).unwrap_or(body.len());
        let body = Bytes::from(body);
        Self {
            before: body.slice(..at),
            after: body.slice((at + MARKER.len()).min(body.len())..),
        }
    }

    /// The size of the object in bytes, without its version.
    pub fn size(&self) -> usize {
        self.before.len() + self.after.len()
    }

    /// The body with this version, as a dry run returns it.
    pub fn filled(&self, version: &str) -> Bytes {
        let mut body = Vec::with_capacity(self.size() + version.len());
        body.extend_from_slice(&self.before);
        body.extend_from_slice(version.as_bytes());
        body.extend_from_slice(&self.after);
        body.into()
    }

    /// The line of a watch with the body in it.
    pub(super) fn line(&self, kind: EventKind, version: u64) -> Bytes {
        let version = version.to_string();
        line_of_parts(kind.name(), &[&self.before, version.as_bytes(), &self.after])
    }
}

#[derive(Clone, Debug)]
pub enum Change {
    /// Only if the object does not exist.
    Create(Draft),
    /// Only if the stored object has this version.
    Update(u64, Draft),
    /// Only if the stored object has this version. The draft is the last state, for watchers.
    Delete(u64, Draft),
}

/// A condition elsewhere in the store, checked in the commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Guard {
    /// The namespace exists: no object is created in one that has just gone.
    NamespaceExists(Arc<str>),
    /// The namespace is empty, so it can go.
    NamespaceEmpty(Arc<str>),
}

#[derive(Clone, Debug)]
pub struct Write {
    pub key: Key,
    pub change: Change,
    pub guard: Option<Guard>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    #[error("already there")]
    Exists,
    #[error("not there")]
    Missing,
    #[error("changed in the meantime")]
    Stale,
    #[error("namespace not there")]
    NoNamespace,
    #[error("namespace not empty")]
    NotEmpty,
    #[error("the store could not be written: {0}")]
    Failed(String),
}
