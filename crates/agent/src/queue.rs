//! The release queue: a folder into which a plugin puts a file for each DEL that nobody answered. Here it is read, by an agent that trusts
//! nothing in it: a file is obeyed only when it is a whole entry under its own name, and what is not goes aside for a person to look at.
//!
//! Every pass over the folder reads it from its start, whatever woke the reader: an event only says that it is time. All of it blocks, and
//! belongs on a thread for that.

mod aside;
mod drain;
mod entry;
mod pass;
mod watch;

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{AtFlags, Mode, OFlags, open, openat, unlinkat};
use rustix::io::Errno;
use tracing::warn;

pub use drain::{Drain, DrainError};
pub use entry::{Broken, Entry, Found, Queued, Why};
pub use pass::Pass;
pub use watch::Watch;

/// What goes aside is kept in here.
const ASIDE: &str = "broken";

/// Who writes the files of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flavour {
    /// Our plugins: `<container>:<interface>`, put in place by a rename.
    Ours,
    /// azure-ipam and azure-vnet: named by the container, with the pod's interface in it, written in place.
    Compat,
}

impl Flavour {
    fn flag(self) -> &'static str {
        match self {
            Self::Ours => "--queue-dir",
            Self::Compat => "--compat-queue-dir",
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{flag} {path}: {error}; name a folder, and no link to one, that the agent can write to")]
pub struct FolderError {
    flag: &'static str,
    path: String,
    error: io::Error,
}

/// How much is in a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    pub depth: u64,
    /// When the oldest of them was written.
    pub oldest: Option<SystemTime>,
}

/// A release queue. The folder is looked up by its path each time: somebody may have made it anew.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
    flavour: Flavour,
}

impl Folder {
    /// Makes it if need be, for its owner alone.
    pub fn open(path: impl Into<PathBuf>, flavour: Flavour) -> Result<Self, FolderError> {
        let folder = Self {
            path: path.into(),
            flavour,
        };
        match folder.secure() {
            Ok(()) => Ok(folder),
            Err(error) => Err(FolderError {
                flag: flavour.flag(),
                path: folder.path.display().to_string(),
                error,
            }),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Who may write into it can make the agent take addresses from pods: that is for its owner alone.
    fn secure(&self) -> io::Result<()> {
        let folder = File::from(self.handle()?);
        let mode = folder.metadata()?.mode() & 0o7777;
        if mode & 0o022 != 0 {
            warn!(folder = %self.path.display(), "others could write into the release queue: from now on they can't");
            rustix::fs::fchmod(&folder, Mode::from_raw_mode(mode & !0o022))?;
        }
        Ok(())
    }

    fn handle(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match open(&self.path, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
                Ok(open(&self.path, flags, Mode::empty())?)
            }
            handle => Ok(handle?),
        }
    }

    /// Begins to read it.
    pub fn pass(&self) -> io::Result<Pass> {
        Pass::begin(self.handle()?, self.flavour)
    }

    pub fn survey(&self) -> io::Result<Survey> {
        self.pass()?.survey()
    }

    /// Removes an entry whose release is in the journal. One that was put in its place meanwhile stays. No fsync: what comes back after a
    /// crash of the machine is about a container that did not survive it.
    pub fn done(&self, entry: &Entry) -> io::Result<()> {
        let handle = self.handle()?;
        let now = match look(&handle, OsStr::new(&entry.name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => Stamp::of(&found?),
        };
        if now != entry.stamp {
            return Ok(());
        }
        match unlinkat(&handle, entry.name.as_str(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Puts what can't be obeyed where a person finds it, and nobody reads it as an entry.
    pub fn set_aside(&self, broken: &Broken) -> io::Result<()> {
        aside::put(&self.handle()?, &broken.name)
    }
}

/// Which file it was, and in which state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// What is under a name, itself and not what it may lead to.
fn look(folder: impl AsFd, name: &OsStr) -> io::Result<Metadata> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    File::from(openat(folder, name, flags, Mode::empty())?).metadata()
}

#[cfg(test)]
mod tests;
