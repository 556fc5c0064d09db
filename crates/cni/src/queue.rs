//! The release queue as a plugin writes it: an entry for each release that nobody acknowledged, and
//! past its limit one mark for all of them. Nobody waits for an agent here: that a pod goes may be
//! what makes room for the agent, or for its disk.

mod overflow;
mod usage;

use std::fs::{DirBuilder, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;

use berth_api::agent::{MAX_QUEUE_BYTES, MAX_QUEUE_ENTRIES, RESERVE, Release, entry_name};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, fsync, openat, renameat, unlinkat};

use usage::Usage;

#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    #[error("{0}")]
    Directory(io::Error),
    #[error("{why}; nor can a mark be left instead: {mark}")]
    Neither { why: NoEntry, mark: io::Error },
}

/// Why a release is not in the queue as an entry.
#[derive(Debug, thiserror::Error)]
pub enum NoEntry {
    #[error("it has {MAX_QUEUE_ENTRIES} entries or {MAX_QUEUE_BYTES} bytes, and takes no more")]
    Full,
    #[error("{0}")]
    Unwritten(#[from] io::Error),
}

/// Once this returns well, an agent that comes finds out that the attachment is detached: by an
/// entry, or where there is no room for one, by the mark.
pub fn leave(path: &str, release: &Release) -> Result<(), QueueError> {
    let directory = open(path).map_err(QueueError::Directory)?;
    let usage = Usage::of(&directory).map_err(QueueError::Directory)?;
    let why = match enter(&directory, &usage, release) {
        Ok(()) => return Ok(()),
        Err(why) => why,
    };
    // Whatever keeps an entry from being written need not keep a file from being renamed.
    overflow::mark(&directory, release.started).map_err(|mark| QueueError::Neither { why, mark })
}

fn open(path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(CWD, path, flags, Mode::empty()) {
        // Whoever uninstalls Berth removes the plugins before the queue. A plugin that was called
        // before would make the directory anew, and nobody would ever come to look into it.
        Err(rustix::io::Errno::NOENT) if is_uninstalled() => {
            let why = "this plugin was uninstalled meanwhile, and the directory is gone";
            Err(io::Error::new(io::ErrorKind::NotFound, why))
        }
        Err(rustix::io::Errno::NOENT) => {
            DirBuilder::new().mode(0o700).recursive(true).create(path)?;
            Ok(openat(CWD, path, flags, Mode::empty())?)
        }
        opened => Ok(opened?),
    }
}

/// Whether the file that this process runs from has been removed, or another one put in its place.
fn is_uninstalled() -> bool {
    let program = std::fs::read_link("/proc/self/exe");
    program.is_ok_and(|program| program.as_os_str().as_bytes().ends_with(b" (deleted)"))
}

/// Several plugins at once may each find room for one more: the limit is for the disk's sake, and
/// need not be exact.
fn enter(directory: &OwnedFd, usage: &Usage, release: &Release) -> Result<(), NoEntry> {
    let name = entry_name(&release.attachment);
    // One that takes the place of an older one needs no more than that had.
    if usage.is_full() && !usage.has(&name) {
        return Err(NoEntry::Full);
    }
    if !usage.has_reserve() {
        // Now, for when there is no room; without it the entry may still be written.
        let _ = overflow::reserve(directory);
    }
    Ok(write(directory, &name, release)?)
}

/// There as a whole or not at all, and after a loss of power too once this returns. An older entry
/// of the same attachment gives way.
fn write(directory: &OwnedFd, name: &str, release: &Release) -> io::Result<()> {
    // The agent does not read what begins with a dot.
    let unfinished = format!(".{name}.{:x}.{:x}", std::process::id(), release.started);
    let new = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let mut file = File::from(openat(directory, unfinished.as_str(), new, mode)?);
    let written = serde_json::to_vec(release)
        .map_err(io::Error::from)
        .and_then(|content| file.write_all(&content))
        .and_then(|()| file.sync_all())
        .and_then(|()| Ok(renameat(directory, unfinished.as_str(), directory, name)?));
    if let Err(error) = written {
        // What is left of it is no entry: it takes a little room, and no harm comes of it.
        let _ = unlinkat(directory, unfinished.as_str(), AtFlags::empty());
        return Err(error);
    }
    Ok(fsync(directory)?)
}

/// What is neither an entry nor on its way to be one.
fn is_kept_apart(name: &str) -> bool {
    name == RESERVE || berth_api::agent::overflow_of(name).is_some()
}
