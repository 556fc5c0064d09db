//! How much room the queue takes.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;

use berth_api::agent::{MAX_QUEUE_BYTES, MAX_QUEUE_ENTRIES, RESERVE};
use rustix::fs::{AtFlags, Dir, FileType, statat};
use rustix::io::Errno;

use super::is_kept_apart;

/// The unit of `st_blocks`, on any file system.
const BLOCK: u64 = 512;

pub struct Usage {
    names: BTreeSet<String>,
    bytes: u64,
    has_reserve: bool,
}

impl Usage {
    /// Reads the whole directory. Unfinished files count, because they take room, too.
    pub fn of(directory: &OwnedFd) -> io::Result<Self> {
        let mut usage = Self {
            names: BTreeSet::new(),
            bytes: 0,
            has_reserve: false,
        };
        for found in Dir::read_from(directory)? {
            let found = found?;
            // Files that the agent has put aside are in a directory with a limit of its own.
            if found.file_type() == FileType::Directory {
                continue;
            }
            let name = found.file_name().to_string_lossy();
            usage.has_reserve |= name == RESERVE;
            if is_kept_apart(&name) {
                continue;
            }
            match statat(directory, found.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => {
                    let blocks = u64::try_from(stat.st_blocks).unwrap_or(0);
                    usage.bytes = usage.bytes.saturating_add(blocks.saturating_mul(BLOCK));
                }
                // The agent has drained the entry meanwhile.
                Err(Errno::NOENT) => continue,
                Err(error) => return Err(error.into()),
            }
            usage.names.insert(name.into_owned());
        }
        Ok(usage)
    }

    pub fn is_full(&self) -> bool {
        self.names.len() >= MAX_QUEUE_ENTRIES || self.bytes >= MAX_QUEUE_BYTES
    }

    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    pub fn has_reserve(&self) -> bool {
        self.has_reserve
    }
}
