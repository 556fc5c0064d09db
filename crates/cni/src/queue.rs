//! The release queue as a plugin writes it: an entry for each release that the agent did not
//! acknowledge, and past its limit one mark for all further ones. A DEL does not wait for the
//! agent: the pod's deletion may be what makes room for the agent, or on its disk.

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
    #[error("{why}; and its mark was not written either: {mark}")]
    Neither { why: NoEntry, mark: io::Error },
}

/// Why a release is not in the queue as an entry.
#[derive(Debug, thiserror::Error)]
pub enum NoEntry {
    #[error("it is full: it has {MAX_QUEUE_ENTRIES} entries or {MAX_QUEUE_BYTES} bytes")]
    Full,
    #[error("{0}")]
    Unwritten(#[from] io::Error),
}

/// Once this succeeds, the next agent finds out that the attachment is detached: by an entry, or if
/// there is no room for one, by the mark.
pub fn enqueue(path: &str, release: &Release) -> Result<(), QueueError> {
    let directory = open(path).map_err(QueueError::Directory)?;
    let usage = Usage::of(&directory).map_err(QueueError::Directory)?;
    let why = match enter(&directory, &usage, release) {
        Ok(()) => return Ok(()),
        Err(why) => why,
    };
    // A rename may still work when an entry can't be written.
    overflow::mark(&directory, release.started).map_err(|mark| QueueError::Neither { why, mark })
}

fn open(path: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match openat(CWD, path, flags, Mode::empty()) {
        // An uninstall removes the plugins before the queue. A plugin that is still running would
        // create the directory again, and no agent would ever read it.
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

/// Whether the file that this process runs from has been removed or replaced.
fn is_uninstalled() -> bool {
    let program = std::fs::read_link("/proc/self/exe");
    program.is_ok_and(|program| program.as_os_str().as_bytes().ends_with(b" (deleted)"))
}

/// Several plugins at once may each find room for one more entry: the limit protects the disk, and
/// need not be exact.
fn enter(directory: &OwnedFd, usage: &Usage, release: &Release) -> Result<(), NoEntry> {
    let name = entry_name(&release.attachment);
    // An entry that replaces an older one needs no more room.
    if usage.is_full() && !usage.has(&name) {
        return Err(NoEntry::Full);
    }
    if !usage.has_reserve() {
        // Reserves the mark's file while there is room. If that fails, the entry may still be
        // written.
        let _ = overflow::reserve(directory);
    }
    Ok(write(directory, &name, release)?)
}

/// Writes the entry whole or not at all. Once this returns, it survives a loss of power. It
/// replaces an older entry of the same attachment.
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
        // If this fails, the unfinished file takes a little room and does no harm.
        let _ = unlinkat(directory, unfinished.as_str(), AtFlags::empty());
        return Err(error);
    }
    Ok(fsync(directory)?)
}

/// Whether the name is that of the mark or of its reserve file, which are not entries.
fn is_kept_apart(name: &str) -> bool {
    name == RESERVE || berth_api::agent::overflow_of(name).is_some()
}
