//! Removes exactly the entry whose release is in the journal.
//!
//! A plugin may put a later entry of the same attachment in its place at any moment, by a rename.
//! That may happen between a check of a name and its removal. So the agent first renames the entry
//! to a private name, under which no plugin changes it any more, and compares it with what was
//! released. If it is the same, it is removed. If it is a later entry, it gets its name back,
//! unless a still later entry has that name by now: then the latest one stays, as if the agent had
//! not been there.
//!
//! An agent that ends in between leaves an entry under the private name. The next pass gives it its
//! name back, and a second release does no harm. No fsync is needed: an entry that comes back after
//! a crash of the machine is about a container that did not survive it.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::time::SystemTime;

use rustix::fs::{AtFlags, RenameFlags, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

use super::entry::{self, Entry, Found};
use super::{Directory, Stamp, look};

/// The prefix of private names. No plugin's unfinished file has it, because container ids begin
/// with a letter or a digit.
const PRIVATE: &str = ".-removing-";

impl Directory {
    /// Removes an entry whose release is in the journal. A later entry under the same name stays.
    pub fn done(&self, entry: &Entry) -> io::Result<()> {
        match self.take(entry)? {
            Some(taken) => self.finish(entry, taken),
            None => Ok(()),
        }
    }

    /// Renames the file under the entry's name. `None` when nothing is left to do.
    pub(super) fn take(&self, entry: &Entry) -> io::Result<Option<Taken>> {
        let handle = self.handle()?;
        let private = format!("{PRIVATE}{}", entry.name);
        match renameat(&handle, entry.name.as_str(), &handle, private.as_str()) {
            Ok(()) => Ok(Some(Taken { handle, private })),
            Err(Errno::NOENT) => Ok(None),
            // On a full disk a directory may not take one more name, not even for a moment. There
            // the moment between look and removal is a smaller evil than a queue that stays full.
            Err(Errno::NOSPC | Errno::DQUOT) => remove_in_place(&handle, entry).map(|()| None),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn finish(&self, entry: &Entry, taken: Taken) -> io::Result<()> {
        let Taken { handle, private } = taken;
        let (private, own) = (OsStr::new(&private), OsStr::new(&entry.name));
        match entry::read_as(handle.as_fd(), private, own, self.flavour, SystemTime::now()) {
            Ok(Some(Found::Entry(found))) if found == *entry => unlink(&handle, private),
            _ => put_back(&handle, private, own),
        }
    }
}

/// A file that has a private name now.
#[derive(Debug)]
pub(super) struct Taken {
    handle: OwnedFd,
    private: String,
}

/// Gives a file under a private name, left by an earlier agent, its own name back. Returns `false`
/// for any other name.
pub(super) fn restore(handle: &OwnedFd, name: &OsStr) -> io::Result<bool> {
    let Some(own) = name.as_bytes().strip_prefix(PRIVATE.as_bytes()) else {
        return Ok(false);
    };
    let own = OsString::from(OsStr::from_bytes(own));
    put_back(handle, name, &own).map(|()| true)
}

fn put_back(handle: &OwnedFd, private: &OsStr, own: &OsStr) -> io::Result<()> {
    match renameat_with(handle, private, handle, own, RenameFlags::NOREPLACE) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::EXIST) => unlink(handle, private),
        Err(error) => Err(error.into()),
    }
}

fn remove_in_place(handle: &OwnedFd, entry: &Entry) -> io::Result<()> {
    let name = OsStr::new(&entry.name);
    let found = match look(handle, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if Stamp::of(&found) != entry.stamp {
        return Ok(());
    }
    unlink(handle, name)
}

fn unlink(handle: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match unlinkat(handle, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
