//! The release queue: a directory into which a plugin puts a file for each DEL that the agent did
//! not answer. The agent trusts nothing in it: a file is released only if it is a whole entry under
//! its own name. Any other file is put aside for a person to look at.
//!
//! Every pass reads the whole directory: an event only says that it is time for one. All of this
//! code blocks, and belongs on a blocking thread.

mod aside;
mod drain;
mod entry;
mod mark;
mod pass;
mod removal;
mod watch;

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{Mode, OFlags, fstat, open, openat};
use rustix::io::Errno;
use rustix::process::geteuid;
use tracing::{debug, warn};

pub use drain::{Drain, DrainError};
pub use entry::{Broken, Entry, Found, Queued, Why};
pub use mark::Mark;
pub use pass::Pass;
pub use watch::Watch;

/// The directory for broken files.
const ASIDE: &str = "broken";

/// Who writes the files of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flavour {
    /// Our plugins: `<container>:<interface>`, put in place by a rename.
    Ours,
    /// azure-ipam and azure-vnet: named by the container, with the pod's interface in it, written
    /// in place.
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
#[error(
    "{flag} {path}: {error}; name a directory, and no link to one, that the agent can write to"
)]
pub struct DirectoryError {
    flag: &'static str,
    path: String,
    error: io::Error,
}

/// How much is in a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    pub depth: u64,
    /// When the oldest of them was written.
    pub oldest: Option<SystemTime>,
    /// Present if releases were left out past the limit.
    pub mark: Option<Mark>,
}

/// A release queue. The directory is opened by its path each time, because it may have been
/// recreated.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    flavour: Flavour,
}

impl Directory {
    /// Creates the directory if need be, for its owner alone.
    pub fn open(path: impl Into<PathBuf>, flavour: Flavour) -> Result<Self, DirectoryError> {
        let directory = Self {
            path: path.into(),
            flavour,
        };
        match directory.secure() {
            Ok(()) => Ok(directory),
            Err(error) => Err(DirectoryError {
                flag: flavour.flag(),
                path: directory.path.display().to_string(),
                error,
            }),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes write permission from all but the owner: a user who can write here can make the agent
    /// take addresses from pods.
    fn secure(&self) -> io::Result<()> {
        let directory = File::from(self.handle()?);
        let mode = directory.metadata()?.mode() & 0o7777;
        if mode & 0o022 != 0 {
            warn!(directory = %self.path.display(), "other users can write to the release queue; \
                                                     removing their permission");
            rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode & !0o022))?;
        }
        if let Err(error) = self.reserve() {
            // The disk may be full, for example. The next pass tries again.
            debug!(%error, "cannot create the release queue's reserve file; retrying at the next \
                            pass");
        }
        Ok(())
    }

    /// Checks the owner each time: another owner could have replaced the directory, or put anything
    /// into it.
    fn handle(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let handle = match open(&self.path, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                DirBuilder::new().recursive(true).mode(0o700).create(&self.path)?;
                open(&self.path, flags, Mode::empty())?
            }
            handle => handle?,
        };
        let owner = fstat(&handle)?.st_uid;
        if !is_trusted_owner(owner) {
            return Err(io::Error::other(format!(
                "it belongs to user {owner}, who could have addresses taken from pods: \
                 make it root's (chown root:root)"
            )));
        }
        Ok(handle)
    }

    /// Whether its plugins leave a mark past a limit.
    pub fn overflows(&self) -> bool {
        self.flavour == Flavour::Ours
    }

    /// Begins a pass over the directory.
    pub fn pass(&self) -> io::Result<Pass> {
        Pass::begin(self.handle()?, self.flavour)
    }

    pub fn survey(&self) -> io::Result<Survey> {
        self.pass()?.survey()
    }

    /// Moves a broken file to where a person finds it and no pass reads it again.
    pub fn set_aside(&self, broken: &Broken) -> io::Result<()> {
        aside::put(&self.handle()?, &broken.name)
    }
}

/// Identifies a file and its content. A rename does not change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    modified: (i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// Only root and the agent's own user are trusted.
fn is_trusted_owner(user: u32) -> bool {
    user == 0 || user == geteuid().as_raw()
}

/// Whether no other user can have written the file.
fn is_trusted(metadata: &Metadata) -> bool {
    is_trusted_owner(metadata.uid()) && metadata.mode() & 0o022 == 0
}

/// The metadata of a name, without following a link.
fn look(directory: impl AsFd, name: &OsStr) -> io::Result<Metadata> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    File::from(openat(directory, name, flags, Mode::empty())?).metadata()
}

#[cfg(test)]
mod tests;
