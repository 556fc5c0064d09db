//! Where broken files go: a subdirectory of the queue. A few are enough to see what went wrong.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use rustix::fs::{
    AtFlags, Dir, Mode, OFlags, RenameFlags, mkdirat, openat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use super::{ASIDE, look};

/// The most files that are kept: beyond it, the oldest go.
pub(super) const KEPT: usize = 100;
/// The number of names tried for one file.
const ATTEMPTS: usize = KEPT + 1;
/// The longest part of a name that is kept, so that a number fits behind it.
const LONGEST: usize = 240;

pub fn put(directory: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let aside = open(directory)?;
    if name == ASIDE {
        // The file was moved when the directory was made.
        return Ok(());
    }
    make_room(&aside)?;
    for attempt in 0..ATTEMPTS {
        match renameat_with(
            directory,
            name,
            &aside,
            numbered(name, attempt),
            RenameFlags::NOREPLACE,
        ) {
            Err(Errno::EXIST) => {}
            // The file is gone already.
            Err(Errno::NOENT) => return Ok(()),
            renamed => return Ok(renamed?),
        }
    }
    Err(Errno::EXIST.into())
}

fn open(directory: &OwnedFd) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match openat(directory, ASIDE, flags, Mode::empty()) {
        Ok(aside) => Ok(aside),
        Err(Errno::NOENT) => {
            mkdirat(directory, ASIDE, Mode::RWXU)?;
            Ok(openat(directory, ASIDE, flags, Mode::empty())?)
        }
        // Another file has the directory's name. It is a broken entry itself.
        Err(Errno::NOTDIR | Errno::LOOP) => {
            let elsewhere = format!(".{ASIDE}");
            renameat_with(directory, ASIDE, directory, &elsewhere, RenameFlags::empty())?;
            mkdirat(directory, ASIDE, Mode::RWXU)?;
            let aside = openat(directory, ASIDE, flags, Mode::empty())?;
            renameat_with(directory, elsewhere, &aside, ASIDE, RenameFlags::NOREPLACE)?;
            Ok(aside)
        }
        Err(error) => Err(error.into()),
    }
}

fn numbered(name: &OsStr, attempt: usize) -> OsString {
    let mut numbered =
        OsStr::from_bytes(name.as_bytes().get(..LONGEST).unwrap_or(name.as_bytes())).to_owned();
    if attempt > 0 {
        numbered.push(format!(".{attempt}"));
    }
    numbered
}

/// Directories that are not empty stay: nobody knows what else is in them.
fn make_room(aside: &OwnedFd) -> io::Result<()> {
    let mut kept = Vec::new();
    for found in Dir::read_from(aside)? {
        let found = found?;
        let name = OsStr::from_bytes(found.file_name().to_bytes()).to_owned();
        if name == "." || name == ".." {
            continue;
        }
        match look(aside.as_fd(), &name) {
            Ok(metadata) => {
                kept.push(((metadata.ctime(), metadata.ctime_nsec()), metadata.is_dir(), name))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    kept.sort();
    let superfluous = (kept.len() + 1).saturating_sub(KEPT);
    for (_, is_directory, name) in kept.into_iter().take(superfluous) {
        let flags = if is_directory {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        match unlinkat(aside, name, flags) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
