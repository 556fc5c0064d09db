//! One agent for one node, and one for one state directory.
//!
//! Two agents of one node would each give out the node's addresses, from two journals. Two agents
//! that write one journal would each undo what the other has answered.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use berth_kit::private_file;

const NAME: &str = "lock";
/// The subdirectory of the lock directory that holds one directory for each cluster.
const NODES: &str = "nodes";

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    #[error(
        "--state-dir {directory}: another agent uses it; stop that one, or give this one a \
         directory of its own"
    )]
    InUse { directory: String },
    #[error("--state-dir {directory}: {error}; give the agent a directory that it can write to")]
    Io { directory: String, error: io::Error },
    #[error(
        "--node-name {node}: another agent on this machine serves the node ({holder}); \
         stop that one, or give this one the name of another node"
    )]
    NodeInUse { node: String, holder: String },
    #[error("--node-name {node:?}: it is not the name of a node; use letters, digits, '-' and '.'")]
    Name { node: String },
    #[error(
        "--lock-dir {directory}: {error}; give the agents of this machine a directory that \
         they can write to"
    )]
    NodeIo { directory: String, error: io::Error },
}

/// Held until it is dropped. The kernel releases it with the process, however that ends.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Locks the journal in `directory`.
    pub fn take(directory: &Path) -> Result<Self, LockError> {
        let named = || directory.display().to_string();
        match hold(directory, NAME) {
            Ok(Held::Ours(file)) => Ok(Self { _file: file }),
            Ok(Held::Others(_)) => Err(LockError::InUse { directory: named() }),
            Err(error) => Err(LockError::Io {
                directory: named(),
                error,
            }),
        }
    }

    /// Locks a node of a cluster. Clusters on one machine may have nodes of the same name.
    pub fn take_node(
        locks: &Path,
        cluster: &str,
        node: &str,
        state: &Path,
    ) -> Result<Self, LockError> {
        if !is_name(node) || !is_name(cluster) {
            return Err(LockError::Name { node: node.to_owned() });
        }
        let directory: PathBuf = [locks, Path::new(NODES), Path::new(cluster)].iter().collect();
        let io = |error| LockError::NodeIo {
            directory: locks.display().to_string(),
            error,
        };
        match hold(&directory, node).map_err(io)? {
            Held::Ours(mut file) => {
                // For the error of an agent that is refused.
                let about =
                    format!("process {}, --state-dir {}", std::process::id(), state.display());
                file.set_len(0)
                    .and_then(|()| file.write_all(about.as_bytes()))
                    .map_err(io)?;
                Ok(Self { _file: file })
            }
            Held::Others(file) => {
                let mut holder = String::new();
                // The holder may be about to write it.
                let _ = file.take(4096).read_to_string(&mut holder);
                let node = node.to_owned();
                Err(LockError::NodeInUse { node, holder })
            }
        }
    }
}

enum Held {
    Ours(File),
    Others(File),
}

fn hold(directory: &Path, name: &str) -> io::Result<Held> {
    fs::create_dir_all(directory)?;
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true).mode(0o600);
    let file = options.open(directory.join(name))?;
    // An agent that was killed while it started `portmap` or a plugin leaves a child, which has the
    // lock until it becomes that program.
    match private_file::lock(&file)? {
        true => Ok(Held::Ours(file)),
        false => Ok(Held::Others(file)),
    }
}

/// Whether the name is safe as a file name in its directory.
fn is_name(text: &str) -> bool {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.');
    !text.is_empty() && text.len() <= 253 && text.chars().all(allowed) && !text.starts_with('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_of_a_cluster_is_held_once_and_the_holder_is_named() {
        let locks = tempfile::tempdir().unwrap();
        let take =
            |cluster, node| Lock::take_node(locks.path(), cluster, node, Path::new("/state"));
        let held = take("c1", "n1").unwrap();
        let refused = take("c1", "n1").unwrap_err().to_string();
        let process = format!("process {}, --state-dir /state", std::process::id());
        assert!(
            refused.starts_with("--node-name n1: ") && refused.contains(&process),
            "{refused}"
        );
        // Another node, and a node of the same name in another cluster, are somebody else's.
        let _other = take("c1", "n2").unwrap();
        let _elsewhere = take("c2", "n1").unwrap();
        drop(held);
        take("c1", "n1").unwrap();
    }

    #[test]
    fn a_lock_that_is_released_within_a_moment_is_waited_for() {
        let locks = tempfile::tempdir().unwrap();
        let take = || Lock::take_node(locks.path(), "c1", "n1", Path::new("/state"));
        let held = take().unwrap();
        let child = std::thread::spawn(move || {
            std::thread::sleep(std::time::Duration::from_millis(50));
            drop(held);
        });
        take().unwrap();
        child.join().unwrap();
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused_and_the_longest_fits() {
        let locks = tempfile::tempdir().unwrap();
        for node in ["", ".", "..", "../n1", "a/b", "a\0b"] {
            let refused = Lock::take_node(locks.path(), "c1", node, Path::new("/state"));
            assert!(matches!(refused, Err(LockError::Name { .. })), "{node:?}");
        }
        Lock::take_node(locks.path(), "c1", &"n".repeat(253), Path::new("/state")).unwrap();
    }

    #[test]
    fn a_lock_directory_that_cannot_be_made_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = Lock::take_node(file.path(), "c1", "n1", Path::new("/state"));
        assert!(refused.unwrap_err().to_string().starts_with("--lock-dir "));
    }
}
