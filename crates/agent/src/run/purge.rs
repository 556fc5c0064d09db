//! Removes all files of an agent from its node, when it is not to come back.

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

/// Removes the journal with the release queue, then socket and locks. A running agent would go on
/// to write a deleted journal, so nothing is removed while one runs.
pub fn purge(state_dir: &Path, run_dir: &Path) -> Result<(), PurgeError> {
    let _lock = state_dir.exists().then(|| Lock::take(state_dir)).transpose()?;
    remove(state_dir)?;
    remove(run_dir)
}

/// Renames the directory first: a plugin that is still running may leave a release in it, and it
/// would never be empty. If the rename fails, it is removed in place.
fn remove(directory: &Path) -> Result<(), PurgeError> {
    let failed = |error| PurgeError::Remove {
        directory: directory.display().to_string(),
        error,
    };
    let aside = directory.with_added_extension("removed");
    // Left by an earlier purge that was interrupted.
    remove_all(&aside).map_err(failed)?;
    let is_aside = std::fs::rename(directory, &aside).is_ok();
    remove_all(if is_aside { &aside } else { directory }).map_err(failed)
}

fn remove_all(directory: &Path) -> io::Result<()> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
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
            // Of a run that was ended; the second time it is all that there is.
            std::fs::create_dir_all(root.path().join("state.removed/release-queue")).unwrap();
            purge(&state, &run).unwrap();
            assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn a_release_that_is_left_meanwhile_goes_too() {
        for _ in 0..20 {
            let root = tempfile::tempdir().unwrap();
            let queue = root.path().join("state/release-queue");
            std::fs::create_dir_all(&queue).unwrap();
            let plugin = std::thread::spawn(move || {
                // Until the directory is gone.
                let leave = |n: &u32| std::fs::write(queue.join(n.to_string()), "x").is_ok();
                (0_u32..).take_while(leave).count()
            });
            purge(&root.path().join("state"), &root.path().join("run")).unwrap();
            plugin.join().unwrap();
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
