//! The state that the watches feed and the worker reads.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::core::{Index, Scope};

/// No lock is held across an await.
#[derive(Debug)]
pub struct Shared {
    pub index: Mutex<Index>,
    /// `None` until it is known.
    pub scope: Mutex<Option<Arc<Scope>>>,
    /// The first list of nodes is complete.
    synced: Mutex<bool>,
}

impl Shared {
    pub fn new(scope: Option<Scope>) -> Self {
        Self {
            index: Mutex::default(),
            scope: Mutex::new(scope.map(Arc::new)),
            synced: Mutex::new(false),
        }
    }

    pub fn set_synced(&self) {
        *self.synced.lock() = true;
    }

    /// Nothing may be decided before: a node that is not known yet would look deleted.
    pub fn is_synced(&self) -> bool {
        *self.synced.lock() && self.scope.lock().is_some()
    }
}
