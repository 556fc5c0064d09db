//! Where `berth up` keeps things: the data directory, or nothing but a kubeconfig when it runs in memory.

use std::ffi::OsString;
use std::fmt;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use berth_kit::private_file;

#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// The objects are kept here too.
    durable: bool,
    /// Made for this run; goes with it.
    temporary: bool,
}

impl Directory {
    /// Chooses, and changes nothing yet. In memory and without a directory, the kubeconfig needs one of its own: the default one may belong to a
    /// cluster that runs.
    pub fn choose(asked: Option<PathBuf>, in_memory: bool) -> Result<Self> {
        let temporary = in_memory && asked.is_none();
        let path = match asked {
            Some(path) => path,
            None if temporary => std::env::temp_dir().join(format!("berth-{}", std::process::id())),
            None => default_path(std::env::var_os("XDG_DATA_HOME"), std::env::var_os("HOME"))
                .context("--data-dir: HOME is not set, so there is no default; give --data-dir DIR")?,
        };
        let path = std::path::absolute(&path).with_context(|| format!("--data-dir {}", path.display()))?;
        Ok(Self {
            path,
            durable: !in_memory,
            temporary,
        })
    }

    /// Where the API keeps its objects.
    pub fn objects(&self) -> Option<PathBuf> {
        self.durable.then(|| self.path.clone())
    }

    /// Where the ledger is kept.
    pub fn ledger(&self) -> Option<PathBuf> {
        self.durable.then(|| self.path.join("ledger.redb"))
    }

    fn kubeconfig(&self) -> PathBuf {
        self.path.join("kubeconfig")
    }

    /// The file is there once it can be used, and an earlier start may have left one.
    pub fn withdraw_kubeconfig(&self) -> Result<()> {
        let path = self.kubeconfig();
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error).with_context(|| unwritable(&path)),
            _ => Ok(()),
        }
    }

    pub fn write_kubeconfig(&self, content: &str) -> Result<PathBuf> {
        let path = self.kubeconfig();
        let mut builder = DirBuilder::new();
        builder.recursive(!self.temporary).mode(0o700);
        builder.create(&self.path).with_context(|| unwritable(&self.path))?;
        private_file::write(&path, content).with_context(|| unwritable(&path))?;
        Ok(path)
    }

    pub fn is_durable(&self) -> bool {
        self.durable
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if self.temporary {
            // Nobody is left to be told.
            drop(std::fs::remove_dir_all(&self.path));
        }
    }
}

impl fmt::Display for Directory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.durable {
            self.path.display().fmt(out)
        } else {
            out.write_str("memory")
        }
    }
}

fn unwritable(path: &Path) -> String {
    format!(
        "--data-dir: {} cannot be written; choose a directory that can",
        path.display()
    )
}

/// As the XDG base directories have it: a relative one is none.
fn default_path(xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    let given = xdg.map(PathBuf::from).filter(|path| path.is_absolute());
    let home = home.map(PathBuf::from).filter(|path| !path.as_os_str().is_empty());
    let base = given.or_else(|| home.map(|home| home.join(".local/share")))?;
    Some(base.join("berth"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_default_follows_xdg_and_then_home() {
        let path = |xdg: Option<&str>, home: Option<&str>| default_path(xdg.map(Into::into), home.map(Into::into));
        assert_eq!(path(Some("/x"), Some("/h")), Some("/x/berth".into()));
        assert_eq!(path(Some("x"), Some("/h")), Some("/h/.local/share/berth".into()));
        assert_eq!(path(None, Some("/h")), Some("/h/.local/share/berth".into()));
        assert_eq!(path(None, None), None);
    }

    #[test]
    fn the_kubeconfig_is_for_its_owner_alone_even_when_one_was_there() {
        let parent = tempfile::tempdir().unwrap();
        let directory = Directory::choose(Some(parent.path().join("d")), false).unwrap();
        directory.write_kubeconfig("old").unwrap();
        std::fs::set_permissions(directory.kubeconfig(), PermissionsExt::from_mode(0o644)).unwrap();
        let path = directory.write_kubeconfig("new").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn in_memory_leaves_nothing_behind() {
        let directory = Directory::choose(None, true).unwrap();
        assert_eq!(directory.objects(), None);
        let path = directory.write_kubeconfig("x").unwrap();
        assert!(path.exists());
        drop(directory);
        assert!(!path.parent().unwrap().exists());
    }
}
