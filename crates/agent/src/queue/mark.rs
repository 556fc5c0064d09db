//! The mark that plugins leave in a queue past its limit: see [`berth_api::agent::overflow_name`].

use std::ffi::OsStr;
use std::io;

use berth_api::agent::{RESERVE, overflow_name, overflow_of};
use rustix::fs::{Mode, OFlags, openat, renameat};
use rustix::io::Errno;

use super::Directory;

/// Says that releases were left out of the queue, for DELs that were started no later than this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    pub started: u64,
}

impl Mark {
    pub(super) fn of(name: &OsStr) -> Option<Self> {
        let started = name.to_str().and_then(overflow_of)?;
        Some(Self { started })
    }
}

impl Directory {
    /// The current mark. If there are several, the latest stands for all of them.
    pub fn mark(&self) -> io::Result<Option<Mark>> {
        Ok(self.survey()?.mark)
    }

    /// Renames the mark back to the reserve file. Returns `false`, and leaves the mark, if a plugin
    /// has meanwhile left out another release and so renamed it.
    pub fn unmark(&self, mark: Mark) -> io::Result<bool> {
        let handle = self.handle()?;
        match renameat(&handle, overflow_name(mark.started), &handle, RESERVE) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Creates the reserve file that becomes the mark, while there is room for it. Other vendors'
    /// plugins leave no mark.
    pub(super) fn reserve(&self) -> io::Result<()> {
        if !self.overflows() {
            return Ok(());
        }
        let new =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(self.handle()?, RESERVE, new, Mode::RUSR | Mode::WUSR) {
            Ok(_) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
