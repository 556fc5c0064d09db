//! The mark that releases were left out: see [`berth_api::agent::overflow_name`].

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;

use berth_api::agent::{RESERVE, overflow_name, overflow_of};
use rustix::fs::{Dir, Mode, OFlags, openat, renameat};
use rustix::io::Errno;

/// Each failed one means that another plugin, or the agent, has just changed the mark.
const MAX_ATTEMPTS: usize = 1000;

/// Leaves the mark, or moves the one that is there on to a later time.
///
/// Its time is never before that of the DEL: whatever the DEL detached was attached before, so the
/// agent looks at it. And its name always changes: an agent that has compared with the runtime by
/// the old name, perhaps before this sandbox was gone from there, can't take the new one away.
///
/// Plugins that do it at the same moment may leave more than one, since a directory that changes is
/// not read as it was at any one moment. That does no harm, the latest stands for all; whoever
/// comes next makes one of them again.
///
/// No fsync: the mark is about attachments that don't survive the boot.
pub fn mark(directory: &OwnedFd, started: u64) -> io::Result<()> {
    let mut unmade = None;
    for _ in 0..MAX_ATTEMPTS {
        let mut marks = marks(directory)?;
        let renamed = match (marks.pop_last(), unmade.take()) {
            (Some(before), _) => {
                let after = started.max(before.saturating_add(1));
                let renamed = rename(directory, before, after);
                for older in marks {
                    // One that can't be done away with is looked at by itself.
                    let _ = rename(directory, older, after);
                }
                renamed
            }
            (None, None) => renameat(directory, RESERVE, directory, overflow_name(started)),
            (None, Some(error)) => return Err(error),
        };
        match renamed {
            Ok(()) => return Ok(()),
            // Somebody was quicker, and then there is a mark to move on; or nobody has ever made
            // the file, which takes room that there may be.
            Err(Errno::NOENT) => unmade = reserve(directory).err(),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::BUSY.into())
}

fn rename(directory: &OwnedFd, before: u64, after: u64) -> Result<(), Errno> {
    renameat(directory, overflow_name(before), directory, overflow_name(after))
}

/// Makes the file that becomes the mark, if it is not there.
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
