//! The mark that releases were left out: see [`berth_api::agent::overflow_name`].

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;

use berth_api::agent::{RESERVE, overflow_name, overflow_of};
use rustix::fs::{Dir, Mode, OFlags, openat, renameat};
use rustix::io::Errno;

/// Each failed attempt means that another plugin, or the agent, has just changed the mark.
const MAX_ATTEMPTS: usize = 1000;

/// Leaves the mark, or renames the existing one to a later time.
///
/// Its time is never before that of the DEL. What the DEL detached was attached before, so the
/// agent checks it. And the name always changes: an agent that acted on the old name may have asked
/// the runtime before this sandbox was gone, and can't remove the new name.
///
/// Concurrent plugins may leave more than one mark, because reading a directory is not atomic. That
/// does no harm: the latest stands for all, and the next plugin merges them.
///
/// No fsync is needed: the mark is about attachments that don't survive the boot.
pub fn mark(directory: &OwnedFd, started: u64) -> io::Result<()> {
    let mut unmade = None;
    for _ in 0..MAX_ATTEMPTS {
        let mut marks = marks(directory)?;
        let renamed = match (marks.pop_last(), unmade.take()) {
            (Some(before), _) => {
                let after = started.max(before.saturating_add(1));
                let renamed = rename(directory, before, after);
                for older in marks {
                    // A mark that can't be merged counts by itself.
                    let _ = rename(directory, older, after);
                }
                renamed
            }
            (None, None) => renameat(directory, RESERVE, directory, overflow_name(started)),
            (None, Some(error)) => return Err(error),
        };
        match renamed {
            Ok(()) => return Ok(()),
            // Either another process was first, and there is a mark to rename; or the reserve file
            // was never made, and there may be room for it now.
            Err(Errno::NOENT) => unmade = reserve(directory).err(),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::BUSY.into())
}

fn rename(directory: &OwnedFd, before: u64, after: u64) -> Result<(), Errno> {
    renameat(directory, overflow_name(before), directory, overflow_name(after))
}

/// Creates the reserve file, which becomes the mark, if it is missing.
pub fn reserve(directory: &OwnedFd) -> io::Result<()> {
    let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(directory, RESERVE, new, Mode::RUSR | Mode::WUSR) {
        Ok(_) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn marks(directory: &OwnedFd) -> io::Result<BTreeSet<u64>> {
    let mut marks = BTreeSet::new();
    for found in Dir::read_from(directory)? {
        marks.extend(found?.file_name().to_str().ok().and_then(overflow_of));
    }
    Ok(marks)
}
