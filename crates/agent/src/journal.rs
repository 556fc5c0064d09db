//! Who has which address, as one line for each change, appended to a file.
//!
//! Why an answered ADD survives a crash of the process: its line is handed to the kernel by one
//! write before it is answered, and the kernel keeps it whatever becomes of the process. No fsync
//! is needed: after a crash of the machine no pod is left that could have an address, and the boot
//! id in the first line tells that from a crash of the process.
//!
//! A partial last line was never answered. A damaged line may mean more damage, so the whole file
//! is put aside for a person and reported. The [`Mark`], which is kept elsewhere, detects a journal
//! that is gone, or older than the last answer because somebody restored a copy.

mod line;
mod mark;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use berth_api::cni::{Attachment, PodRef};
use berth_api::format::NewerFormat;
use tracing::warn;

use line::Line;
use mark::Mark;

/// One address and its name in the NodeNetworkConfig. If the node has a network container's whole
/// blocks, the name is that of the network container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    pub name: String,
    pub address: IpAddr,
}

/// One change. Times are nanoseconds since the boot; `started` is the start of the plugin that
/// asked for the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    Assigned {
        at: u64,
        started: u64,
        attachment: Attachment,
        network: String,
        pod: PodRef,
        held: Vec<Held>,
    },
    Released {
        at: u64,
        started: u64,
        attachment: Attachment,
    },
    /// These addresses have been free since `at`. It stands for a release whose own entry is gone.
    Freed {
        at: u64,
        held: Vec<Held>,
    },
    /// The entries so far may be incomplete: until `Settled`, others may have addresses that are
    /// not in the journal.
    Quarantined,
    Settled,
    /// These addresses are being given back to the subnet: no pod gets them any more.
    Releasing {
        at: u64,
        names: Vec<String>,
    },
}

/// What was there when the journal was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Nothing,
    /// The entries of this boot, in order. `torn`: the last line was partial and is left out.
    Entries {
        entries: Vec<Entry>,
        torn: bool,
    },
    /// The journal is of an earlier boot, none of whose pods is left.
    EarlierBoot,
    /// The journal is not the one of the last answer. Other sources must say what is assigned.
    Untrusted {
        /// The entries of that journal, and a last one that starts the quarantine.
        entries: Vec<Entry>,
        /// Where the damaged file was put.
        aside: Option<PathBuf>,
        why: String,
    },
}

#[derive(Debug, thiserror::Error)]
#[error("{path}: {error}; {fix}")]
pub struct JournalError {
    path: String,
    error: io::Error,
    fix: &'static str,
}

/// Open, and at its end.
#[derive(Debug)]
pub struct Journal<D = File> {
    path: PathBuf,
    boot: String,
    /// The id of this file: a compacted journal gets a new one.
    id: u64,
    mark: Mark,
    disk: D,
    /// The length up to which every line is whole.
    length: u64,
    lines: usize,
    /// A partial line could not be cut off: an appended line would be read together with it.
    has_partial_line: bool,
}

/// The file operations that a journal uses; tests replace them.
pub trait Disk {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

impl Disk for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

const NAME: &str = "journal";

impl Journal {
    /// Reads the journal of a directory, which it creates if need be, and opens it for appending.
    /// `boot` is the kernel's id of this boot, and `mark` the file that says how long the journal
    /// is.
    pub fn open(directory: &Path, mark: &Path, boot: &str) -> Result<(Self, Found), JournalError> {
        let path = directory.join(NAME);
        check_formats(&path, mark)?;
        let opened = || -> io::Result<(Self, Found)> {
            fs::create_dir_all(directory)?;
            let mut mark = Mark::open(mark, boot)?;
            let bytes = match fs::read(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                bytes => Some(bytes?),
            };
            let read = bytes.as_deref().map(|bytes| read(bytes, boot)).unwrap_or_default();
            let found = match read.damage {
                None if bytes.is_none() && mark.is_blank() => Found::Nothing,
                None if bytes.is_none() => untrusted(
                    Vec::new(),
                    None,
                    "it is gone, and addresses were given out since the boot",
                ),
                Some(why) => untrusted(read.entries, Some(put_aside(&path)?), &why),
                None if read.boot.as_deref() != Some(boot) => Found::EarlierBoot,
                None if !mark.allows(read.id, read.whole) => {
                    untrusted(read.entries, None, "it is older than what was last answered from")
                }
                None => {
                    mark.begin(read.id, read.whole)?;
                    mark.settle(read.id)?;
                    let disk = appending(&path)?;
                    disk.set_len(read.whole)?;
                    let journal = Self {
                        path: path.clone(),
                        boot: boot.to_owned(),
                        id: read.id,
                        mark,
                        disk,
                        length: read.whole,
                        lines: read.lines,
                        has_partial_line: false,
                    };
                    let (entries, torn) = (read.entries, read.torn);
                    return Ok((journal, Found::Entries { entries, torn }));
                }
            };
            if let Found::Untrusted { why, aside, .. } = &found {
                warn!(journal = %path.display(), ?aside, why, "cannot trust the journal; \
                                                               quarantining this node's addresses");
            }
            let kept = match &found {
                Found::Untrusted { entries, .. } => entries.as_slice(),
                _ => &[],
            };
            Ok((Self::create(path.clone(), boot, mark, kept)?, found))
        };
        opened().map_err(|error| JournalError {
            path: path.display().to_string(),
            error,
            fix: "give the agent a directory that it can write to",
        })
    }

    /// Writes a new journal beside the old one and renames it, so that it is there whole or not at
    /// all. The mark names both files while either may be in place.
    ///
    /// It needs no fsync: only processes of this boot use the journal. A crash of the machine may
    /// leave less of it, or nothing.
    fn create(path: PathBuf, boot: &str, mut mark: Mark, entries: &[Entry]) -> io::Result<Self> {
        let id = mark::new_id();
        let mut text = Line::first(boot, id).to_string();
        for entry in entries {
            text.push_str(&Line::of(entry).to_string());
        }
        let unfinished = path.with_extension("new");
        match fs::remove_file(&unfinished) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut disk = OpenOptions::new()
            .create_new(true)
            .append(true)
            .mode(0o600)
            .open(&unfinished)?;
        let written = disk
            .write_all(text.as_bytes())
            .and_then(|()| mark.begin(id, length(&text)));
        if let Err(error) = written.and_then(|()| fs::rename(&unfinished, &path)) {
            // The unfinished file would take up room on a full disk.
            drop(fs::remove_file(&unfinished));
            return Err(error);
        }
        // From here on the new file is the journal, and nothing may fail: the mark still names
        // both.
        if let Err(error) = mark.settle(id) {
            warn!(%error, "cannot write the journal's mark; an older copy of the journal may go \
                           unnoticed");
        }
        Ok(Self {
            boot: boot.to_owned(),
            id,
            mark,
            disk,
            path,
            length: length(&text),
            lines: entries.len() + 1,
            has_partial_line: false,
        })
    }

    /// Replaces all entries so far by `entries`, which hold what still matters.
    pub fn compact(&mut self, entries: &[Entry]) -> io::Result<()> {
        let mark = self.mark.try_clone()?;
        *self = Self::create(self.path.clone(), &self.boot, mark, entries)?;
        Ok(())
    }
}

/// Runs before anything is written, so that the files of a newer agent are not touched.
fn check_formats(journal: &Path, mark: &Path) -> Result<(), JournalError> {
    let check = |path: &Path, format: fn(&[u8]) -> u64, known: u64| {
        let newer = match first_bytes(path) {
            Ok(bytes) => NewerFormat::check(format(&bytes), known).err()?,
            // The code that opens the file next reports the error.
            Err(_) => return None,
        };
        Some(JournalError {
            path: path.display().to_string(),
            error: io::Error::other(newer),
            fix: "or drain this node, remove the file, and reboot",
        })
    };
    let newer = check(journal, line::format_of, line::FORMAT)
        .or_else(|| check(mark, mark::format_of, mark::FORMAT));
    newer.map_or(Ok(()), Err)
}

/// Enough bytes for a whole first line.
fn first_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(1024).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The quarantine is written to the journal too: the next agent must not trust it either.
fn untrusted(mut entries: Vec<Entry>, aside: Option<PathBuf>, why: &str) -> Found {
    entries.push(Entry::Quarantined);
    let why = why.to_owned();
    Found::Untrusted { entries, aside, why }
}

impl<D: Disk> Journal<D> {
    /// When it returns, the entries survive a crash of this process. On an error none of them is
    /// kept.
    pub fn append(&mut self, entries: &[Entry]) -> io::Result<()> {
        if self.has_partial_line {
            self.disk.cut(self.length)?;
            self.has_partial_line = false;
        }
        if !entries.iter().all(line::can_be_written) {
            // A name with a blank would be read as something else, or as damage.
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it has a name with a blank in it",
            ));
        }
        let mut text = String::new();
        for entry in entries {
            text.push_str(&Line::of(entry).to_string());
        }
        if let Err(error) = self.disk.append(text.as_bytes()) {
            // A full disk takes a part of the lines. That part must go before anything else is
            // written.
            self.has_partial_line = self.disk.cut(self.length).is_err();
            return Err(error);
        }
        self.length += length(&text);
        self.lines += entries.len();
        // A mark that lags behind only makes it less likely that a restored old copy is noticed.
        if let Err(error) = self.mark.advance(self.id, self.length) {
            warn!(%error, "cannot write the journal's mark; an older copy of the journal may go \
                           unnoticed");
        }
        Ok(())
    }

    /// In bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The number of lines, which decides when to compact.
    pub fn lines(&self) -> usize {
        self.lines
    }
}

/// What the bytes of a journal say.
#[derive(Debug, Default)]
struct Read {
    boot: Option<String>,
    id: u64,
    entries: Vec<Entry>,
    /// The last line is there in part.
    torn: bool,
    /// The length up to which lines are whole, and their number.
    whole: u64,
    lines: usize,
    damage: Option<String>,
}

fn read(bytes: &[u8], boot: &str) -> Read {
    let mut read = Read::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        match Line::read(rest) {
            Ok(Some((line, length))) => {
                match (line, &read.boot) {
                    (Line::First { boot, id }, None) => {
                        read.boot = Some(boot.into_owned());
                        read.id = id;
                    }
                    // The rest of an earlier boot's journal does not matter, damaged or not.
                    (Line::Entry(_), Some(of)) if of != boot => break,
                    (Line::Entry(entry), Some(_)) => read.entries.push(entry.into_owned()),
                    _ => read.damage = Some(format!("line {} is out of place", read.lines + 1)),
                }
                rest = rest.get(length..).unwrap_or_default();
                read.lines += 1;
            }
            Ok(None) => {
                read.torn = true;
                break;
            }
            Err(why) => read.damage = Some(format!("line {}: {why}", read.lines + 1)),
        }
        if read.damage.is_some() {
            return read;
        }
    }
    read.whole = u64::try_from(bytes.len() - rest.len()).unwrap_or(u64::MAX);
    if read.boot.is_none() {
        // No agent ever puts a file in place in this state.
        read.damage = Some("its first line is missing".to_owned());
    }
    read
}

fn appending(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).open(path)
}

/// Renames the file to the first free name, so that no earlier one is overwritten.
fn put_aside(path: &Path) -> io::Result<PathBuf> {
    let mut n = 1_u32;
    loop {
        let aside = path.with_extension(format!("damaged-{n}"));
        if !aside.exists() {
            fs::rename(path, &aside)?;
            return Ok(aside);
        }
        n += 1;
    }
}

fn length(text: &str) -> u64 {
    u64::try_from(text.len()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
