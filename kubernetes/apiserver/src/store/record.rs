//! Stored objects and their keys.

use std::sync::Arc;

use bytes::Bytes;

/// The table of namespaces, which the guards of a commit read.
pub const NAMESPACES: &str = "namespaces";

/// Namespace (empty for cluster-scoped) and name, in list order.
pub type Place = (Arc<str>, Arc<str>);

/// The key of an object. `table` is `<plural>.<group>`, the same for every version of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    pub table: Arc<str>,
    pub namespace: Arc<str>,
    pub name: Arc<str>,
}

impl Key {
    pub fn new(table: &str, namespace: &str, name: &str) -> Self {
        Self {
            table: table.into(),
            namespace: namespace.into(),
            name: name.into(),
        }
    }

    pub(super) fn place(&self) -> Place {
        (self.namespace.clone(), self.name.clone())
    }
}

/// A stored object: its resourceVersion and its JSON, which contains that version too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub version: u64,
    pub body: Bytes,
}

/// The history no longer reaches back to the requested version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("resourceVersion {asked} is older than what is kept ({oldest})")]
pub struct TooOld {
    pub asked: u64,
    pub oldest: u64,
}
