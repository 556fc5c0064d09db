//! How long the journal is, kept apart from it: beside the socket, which on a node is in memory.
//!
//! A journal that somebody restored from a copy looks whole and is of this boot. Only a note kept
//! elsewhere shows that addresses were given out which that journal does not know of.
//!
//! The mark has two slots, because a journal is replaced by a rename: until it is certain which
//! file is in place, both are accepted.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// The file's slots: id and length of a journal. An id of 0 is not a journal's.
type Slots = [(u64, u64); 2];

/// `BOOT` bytes for the boot, then the slots.
const BOOT: usize = 64;
const LENGTH: usize = BOOT + 32;

/// Raised when the slots change in a way that an older agent can't read. The first has no number; a
/// later one has it after [`LENGTH`] bytes, 8 bytes long and little endian.
pub const FORMAT: u64 = 1;

/// The format of a mark that begins with these bytes.
pub fn format_of(bytes: &[u8]) -> u64 {
    let number = bytes.get(LENGTH..).and_then(|rest| rest.first_chunk());
    number.map_or(FORMAT, |number| u64::from_le_bytes(*number))
}

#[derive(Debug)]
pub struct Mark {
    file: File,
    slots: Slots,
}

/// An id that no earlier journal has.
pub fn new_id() -> u64 {
    rand::random::<u64>().max(1)
}

impl Mark {
    /// Reads the notes of this boot. A mark of an earlier boot, or a file that is not a mark,
    /// counts as blank.
    pub fn open(path: &Path, boot: &str) -> io::Result<Self> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        let mut bytes = Vec::new();
        file.by_ref().take(1024).read_to_end(&mut bytes)?;
        let mut named = [0; BOOT];
        for (to, from) in named.iter_mut().zip(boot.bytes()) {
            *to = from;
        }
        let slots = bytes.strip_prefix(&named).and_then(read_slots).unwrap_or_default();
        if bytes.get(..BOOT) != Some(&named[..]) {
            file.set_len(0)?;
            file.write_all_at(&named, 0)?;
        }
        Ok(Self { file, slots })
    }

    /// Whether nothing was noted.
    pub fn is_blank(&self) -> bool {
        self.slots.iter().all(|(id, _)| *id == 0)
    }

    /// Whether this journal has all that was noted.
    pub fn allows(&self, id: u64, length: u64) -> bool {
        self.is_blank() || self.slots.iter().any(|slot| slot.0 == id && slot.1 <= length)
    }

    /// From now on another journal may be in place.
    pub fn begin(&mut self, id: u64, length: u64) -> io::Result<()> {
        let [now, _] = self.slots;
        self.write([now, (id, length)])
    }

    /// From now on this journal is in place, and no other.
    pub fn settle(&mut self, id: u64) -> io::Result<()> {
        let length = self.slots.iter().find(|slot| slot.0 == id).map_or(0, |slot| slot.1);
        self.write([(id, length), (0, 0)])
    }

    pub fn advance(&mut self, id: u64, length: u64) -> io::Result<()> {
        self.write([(id, length), (0, 0)])
    }

    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(Self {
            file: self.file.try_clone()?,
            slots: self.slots,
        })
    }

    /// One write of a few bytes within a page: a process that is killed has made all of it or none.
    fn write(&mut self, slots: Slots) -> io::Result<()> {
        let mut bytes = [0; LENGTH - BOOT];
        let words = slots.iter().flat_map(|(id, length)| [*id, *length]);
        for (chunk, word) in bytes.chunks_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        let at = u64::try_from(BOOT).unwrap_or(u64::MAX);
        self.file.write_all_at(&bytes, at)?;
        self.slots = slots;
        Ok(())
    }
}

fn read_slots(bytes: &[u8]) -> Option<Slots> {
    let word = |at: usize| {
        let bytes = bytes.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    Some([(word(0)?, word(8)?), (word(16)?, word(24)?)])
}
