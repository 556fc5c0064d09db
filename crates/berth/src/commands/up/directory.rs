//! The files of `berth up`: the data directory, or only a kubeconfig when it runs in memory.

use std::ffi::OsString;
use std::fmt;
use std::fs::{DirBuilder, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result};
use berth_kit::private_file;

/// How many times to remove a temporary directory to which something still writes.
const REMOVE_ATTEMPTS: usize = 10;
const REMOVE_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// Made for this run and removed with it: files that are needed even if nothing is kept.
    /// Without it the objects are in `path`.
    temporary: Option<PathBuf>,
    made: bool,
}

impl Directory {
    /// Chooses the paths, and changes nothing yet. In memory and without a given directory, the
    /// kubeconfig gets its own directory: the default one may belong to a running cluster.
    pub fn choose(asked: Option<PathBuf>, in_memory: bool) -> Result<Self> {
        // Not the process id: a killed process has left its directory, and ids are used again.
        let unique = || format!("berth-{:08x}", rand::random::<u32>());
        let temporary = in_memory.then(|| std::env::temp_dir().join(unique()));
        let path = match (asked, &temporary) {
            (Some(path), _) => path,
            (None, Some(temporary)) => temporary.clone(),
            (None, None) => {
                default_path(std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME")).context(
                    "--data-dir: HOME is not set, so there is no default; give --data-dir DIR",
                )?
            }
        };
        let absolute = |path: PathBuf| {
            std::path::absolute(&path).with_context(|| format!("--data-dir {}", path.display()))
        };
        Ok(Self {
            path: absolute(path)?,
            temporary: temporary.map(absolute).transpose()?,
            made: false,
        })
    }

    /// The directory of the virtual nodes, and the flag that chose it.
    pub fn nodes(&self) -> (PathBuf, &'static str) {
        match &self.temporary {
            Some(temporary) => (temporary.join("nodes"), "TMPDIR"),
            None => (self.path.join("nodes"), "--data-dir"),
        }
    }

    /// Call this once it is known that no other process uses the directory.
    pub fn make(&mut self) -> Result<()> {
        if let Some(temporary) = &self.temporary {
            // An existing directory belongs to somebody else.
            let made = DirBuilder::new().mode(0o700).create(temporary);
            made.with_context(|| unwritable("TMPDIR", temporary))?;
            self.made = true;
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
        made.with_context(|| unwritable("--data-dir", &self.path))
    }

    /// Also restricts existing files to their owner: they may be copied back, or made by an older
    /// version.
    pub fn restrict(&self) -> Result<()> {
        for name in ["objects.redb", "ledger.redb", "pki", "nodes", "dashboard-token"] {
            let path = self.path.join(name);
            restrict(&path).with_context(|| {
                format!(
                    "--data-dir: {} cannot be made private; its owner can, or choose \
                     another directory",
                    path.display()
                )
            })?;
        }
        Ok(())
    }

    /// The directory of the API's objects.
    pub fn objects(&self) -> Option<PathBuf> {
        self.is_durable().then(|| self.path.clone())
    }

    /// The file of the ledger.
    pub fn ledger(&self) -> Option<PathBuf> {
        self.is_durable().then(|| self.path.join("ledger.redb"))
    }

    /// The file of the token that changes by the dashboard need. In memory it is removed with the
    /// run.
    pub fn dashboard_token(&self) -> PathBuf {
        let directory = self.temporary.as_ref().unwrap_or(&self.path);
        directory.join("dashboard-token")
    }

    fn kubeconfig(&self) -> PathBuf {
        self.path.join("kubeconfig")
    }

    /// Removes the file of an earlier start: the kubeconfig must exist only while it can be used.
    pub fn remove_kubeconfig(&self) -> Result<()> {
        let path = self.kubeconfig();
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| unwritable("--data-dir", &path))
            }
            _ => Ok(()),
        }
    }

    pub fn write_kubeconfig(&self, content: &str) -> Result<PathBuf> {
        let path = self.kubeconfig();
        private_file::write(&path, content).with_context(|| unwritable("--data-dir", &path))?;
        Ok(path)
    }

    pub fn is_durable(&self) -> bool {
        self.temporary.is_none()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Some(temporary) = self.temporary.as_ref().filter(|_| self.made) {
            // A task that did not stop in time may still write there. Nobody is left to get an
            // error.
            for _ in 0..REMOVE_ATTEMPTS {
                match std::fs::remove_dir_all(temporary) {
                    Err(error) if error.kind() != ErrorKind::NotFound => sleep(REMOVE_INTERVAL),
                    _ => break,
                }
            }
        }
    }
}

impl fmt::Display for Directory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_durable() {
            self.path.display().fmt(out)
        } else {
            out.write_str("memory")
        }
    }
}

/// Restricts files and directories, but not the targets of links.
fn restrict(path: &Path) -> std::io::Result<()> {
    let found = match path.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let mode = match found.file_type() {
        kind if kind.is_dir() => 0o700,
        kind if kind.is_file() => 0o600,
        _ => return Ok(()),
    };
    if found.permissions().mode() & 0o7777 != mode {
        std::fs::set_permissions(path, Permissions::from_mode(mode))?;
    }
    if found.is_dir() {
        for entry in std::fs::read_dir(path)? {
            restrict(&entry?.path())?;
        }
    }
    Ok(())
}

fn unwritable(chosen_by: &str, path: &Path) -> String {
    format!(
        "{chosen_by}: {} cannot be written; choose a directory that can",
        path.display()
    )
}

/// Follows the XDG base directories: a relative path counts as unset.
fn default_path(xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let given = xdg.map(PathBuf::from).filter(|path| path.is_absolute());
    let home = home.map(PathBuf::from).filter(|path| !path.as_os_str().is_empty());
    let base = given.or_else(|| home.map(|home| home.join(".local/share")))?;
    Some(base.join("berth"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_follows_xdg_and_then_home() {
        let path = |xdg: Option<&str>, home: Option<&str>| {
            default_path(xdg.map(Into::into), home.map(Into::into))
        };
        assert_eq!(path(Some("/x"), Some("/h")), Some("/x/berth".into()));
        assert_eq!(path(Some("x"), Some("/h")), Some("/h/.local/share/berth".into()));
        assert_eq!(path(None, Some("/h")), Some("/h/.local/share/berth".into()));
        assert_eq!(path(None, None), None);
    }

    #[test]
    fn a_rewritten_kubeconfig_is_readable_by_its_owner_only() {
        let parent = tempfile::tempdir().unwrap();
        let mut directory = Directory::choose(Some(parent.path().join("d")), false).unwrap();
        directory.make().unwrap();
        directory.write_kubeconfig("old").unwrap();
        std::fs::set_permissions(directory.kubeconfig(), PermissionsExt::from_mode(0o644)).unwrap();
        let path = directory.write_kubeconfig("new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_a_killed_one_left_is_in_nobodys_way() {
        let directories = [(); 2].map(|()| Directory::choose(None, true).unwrap());
        let [mut one, mut other] = directories;
        one.make().unwrap();
        other.make().unwrap();
        assert_ne!(one.nodes().0, other.nodes().0);
    }

    #[test]
    fn in_memory_leaves_only_the_kubeconfig_of_a_given_data_dir() {
        let parent = tempfile::tempdir().unwrap();
        let asked = parent.path().join("d");
        let mut directory = Directory::choose(Some(asked.clone()), true).unwrap();
        assert_eq!(directory.objects(), None);
        directory.make().unwrap();
        let kubeconfig = directory.write_kubeconfig("x").unwrap();
        assert_eq!(kubeconfig, asked.join("kubeconfig"));
        let (nodes, _) = directory.nodes();
        assert!(!nodes.starts_with(&asked));
        std::fs::create_dir(&nodes).unwrap();
        drop(directory);
        assert!(!nodes.parent().unwrap().exists());
        assert!(kubeconfig.exists());

        let mut directory = Directory::choose(None, true).unwrap();
        directory.make().unwrap();
        let kubeconfig = directory.write_kubeconfig("x").unwrap();
        assert!(kubeconfig.exists());
        drop(directory);
        assert!(!kubeconfig.parent().unwrap().exists());
    }
}
