//! What the watches have told, for the worker.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::core::{Index, Scope};

/// No lock is held across an await.
#[derive(Debug)]
pub struct Shared {
    pub index: Mutex<Index>,
    /// `None` until it is known.
    pub scope: Mutex<Option<Arc<Scope>>>,
    /// All nodes have been told once.
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

    /// Before that nothing may be decided: what is not known yet would look as if it were gone.
    pub fn is_synced(&self) -> bool {
        *self.synced.lock() && self.scope.lock().is_some()
    }
}
