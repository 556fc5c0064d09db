//! The open file. After an error of the disk redb refuses everything until the file is opened
//! again: a disk that was full, and is not any more, must not need a person.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use redb::Database;
use tracing::{info, warn};

use super::file::{self, OpenError};

#[derive(Debug)]
pub struct Slot {
    path: PathBuf,
    /// `None` from an error on until the file could be opened again.
    database: Mutex<Option<Arc<Database>>>,
}

impl Slot {
    pub fn open(path: &Path) -> Result<Self, OpenError> {
        let database = file::open(path)?;
        Ok(Self {
            path: path.to_owned(),
            database: Mutex::new(Some(Arc::new(database))),
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Every change under this lock is complete, so a panic elsewhere does not matter.
    fn current(&self) -> MutexGuard<'_, Option<Arc<Database>>> {
        self.database.lock()
    }

    /// Opens the file again if need be. That fails while a reader still uses the failed one, and
    /// the caller tries again.
    pub fn database(&self) -> Result<Arc<Database>, OpenError> {
        let mut current = self.current();
        if let Some(database) = current.as_ref() {
            return Ok(Arc::clone(database));
        }
        let database = Arc::new(file::open(&self.path)?);
        info!(path = %self.path.display(), "reopened the ledger's file");
        *current = Some(Arc::clone(&database));
        Ok(database)
    }

    /// Closes a database that has failed.
    pub fn discard(&self, failed: &Arc<Database>) {
        let mut current = self.current();
        if current.as_ref().is_some_and(|database| Arc::ptr_eq(database, failed)) {
            warn!(path = %self.path.display(), "closing the ledger's file after an error; \
                                                reopening it at its next use");
            *current = None;
        }
    }
}
