//! Removing all that an agent keeps on its node, when it is not to come back.

use std::io;
use std::path::Path;

use super::lock::{Lock, LockError};

#[derive(Debug, thiserror::Error)]
pub enum PurgeError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error("{directory}: it can't be removed: {error}")]
    Remove { directory: String, error: io::Error },
}

/// The journal with the release queue, then socket and locks. An agent that runs would go on to
/// write a journal that nobody finds: as long as there is one, nothing is removed.
pub fn purge(state_dir: &Path, run_dir: &Path) -> Result<(), PurgeError> {
    if state_dir.exists() {
        let _lock = Lock::take(state_dir)?;
        remove(state_dir)?;
    }
    remove(run_dir)
}

fn remove(directory: &Path) -> Result<(), PurgeError> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(PurgeError::Remove {
            directory: directory.display().to_string(),
            error,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_gone_and_gone_twice_is_no_error() {
        let root = tempfile::tempdir().unwrap();
        let (state, run) = (root.path().join("state"), root.path().join("run"));
        std::fs::create_dir_all(state.join("release-queue/broken")).unwrap();
        std::fs::create_dir_all(run.join("nodes")).unwrap();
        std::fs::write(state.join("journal"), "x").unwrap();
        for _ in 0..2 {
            purge(&state, &run).unwrap();
            assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn nothing_is_removed_under_an_agent_that_runs() {
        let root = tempfile::tempdir().unwrap();
        let (state, run) = (root.path().join("state"), root.path().join("run"));
        std::fs::create_dir_all(&run).unwrap();
        let _agent = Lock::take(&state).unwrap();
        let refused = purge(&state, &run).unwrap_err().to_string();
        assert!(refused.contains("another agent uses it"), "{refused}");
        assert!(state.exists() && run.exists());
    }
}
