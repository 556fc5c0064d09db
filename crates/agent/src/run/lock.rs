//! One agent for one folder: two that write one journal would each undo what the other has answered.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

const NAME: &str = "lock";

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error("--state-dir {folder}: another agent uses it; stop that one, or give this one a folder of its own")]
    InUse { folder: String },
    #[error("--state-dir {folder}: {error}; give the agent a folder that it can write to")]
    Io { folder: String, error: io::Error },
}

/// Held as long as this is there. The kernel gives it up with the process, however that ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    pub fn take(folder: &Path) -> Result<Self, LockError> {
        let named = || folder.display().to_string();
        let opened = || -> io::Result<File> {
            fs::create_dir_all(folder)?;
            let mut options = OpenOptions::new();
            options.create(true).truncate(false).write(true).mode(0o600);
            options.open(folder.join(NAME))
        };
        let file = opened().map_err(|error| LockError::Io { folder: named(), error })?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { _file: file }),
            Err(Errno::AGAIN) => Err(LockError::InUse { folder: named() }),
            Err(error) => Err(LockError::Io {
                folder: named(),
                error: error.into(),
            }),
        }
    }
}
