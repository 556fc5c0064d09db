//! Who has which address, as one line for each change, appended to a file.
//!
//! Why an answered ADD survives a crash of the process: its line is handed to the kernel by one
//! write before it is answered, and the kernel keeps it whatever becomes of the process. No fsync
//! is needed: after a crash of the machine no pod is left that could have an address, and the boot
//! id in the first line tells that from a crash of the process.
//!
//! A line that is there only in part was never answered. A line that is damaged is another matter:
//! then nobody knows what else is, and the whole file is put aside for a person, and reported. A
//! journal that is older than what was answered (somebody put back a copy), or is gone, is told by
//! the [`Mark`], which lies elsewhere.

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

/// One address, and the name that the NodeNetworkConfig knows it by, or its container's where all
/// of a container's addresses are the node's.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    pub name: String,
    pub address: IpAddr,
}

/// What happened. Times are nanoseconds since the boot; `started` is when the plugin was started
/// that asked for it.
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
    /// Of a release that is no longer told otherwise: these have been free since then.
    Freed {
        at: u64,
        held: Vec<Held>,
    },
    /// What came before may not be all: until it is settled, others may have addresses that are not
    /// in here.
    Quarantined,
    Settled,
    /// These are given back to the subnet: nobody on the node gets them any more.
    Releasing {
        at: u64,
        names: Vec<String>,
    },
}

/// What was there when the journal was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Nothing,
    /// Of this boot, in order. `torn`: the last line was there in part, and is not among them.
    Entries {
        entries: Vec<Entry>,
        torn: bool,
    },
    /// Of an earlier boot: no pod of then is left.
    EarlierBoot,
    /// It is not what was last answered from. What is assigned must be learned from others too.
    Untrusted {
        /// What it says, which was so once, and that it is in quarantine.
        entries: Vec<Entry>,
        /// Where a damaged one was put.
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
    /// Which file this is: a journal that is compacted is another one.
    id: u64,
    mark: Mark,
    disk: D,
    /// Up to where every line is whole.
    length: u64,
    lines: usize,
    /// A line is there in part and could not be taken away: what is appended now would be read
    /// together with it.
    spoiled: bool,
}

/// What of a file a journal uses; tests have others.
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
    /// Reads the journal of a directory, which is made if need be, and makes it ready for more.
    /// `boot` is what the kernel calls this boot, and `mark` the file that says how far the journal
    /// has come.
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
                        spoiled: false,
                    };
                    let (entries, torn) = (read.entries, read.torn);
                    return Ok((journal, Found::Entries { entries, torn }));
                }
            };
            if let Found::Untrusted { why, aside, .. } = &found {
                warn!(journal = %path.display(), ?aside, why, "the journal can't be trusted");
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

    /// Whole or not at all: written beside, and put in place. The mark knows both files while it is
    /// not certain which of them is there.
    ///
    /// There is no fsync in it: what matters is what other processes of this boot see. A crash of
    /// the machine may leave less of it, or nothing.
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
            // What is left of it would keep the room that is missing.
            drop(fs::remove_file(&unfinished));
            return Err(error);
        }
        // From here on it is the journal, and nothing may fail: the mark knows both until it is
        // told more.
        if let Err(error) = mark.settle(id) {
            warn!(%error, "the mark of the journal can't be written");
        }
        Ok(Self {
            boot: boot.to_owned(),
            id,
            mark,
            disk,
            path,
            length: length(&text),
            lines: entries.len() + 1,
            spoiled: false,
        })
    }

    /// Replaces all that was appended so far by `entries`: what is still worth knowing.
    pub fn compact(&mut self, entries: &[Entry]) -> io::Result<()> {
        let mark = self.mark.try_clone()?;
        *self = Self::create(self.path.clone(), &self.boot, mark, entries)?;
        Ok(())
    }
}

/// Before anything is written: what a later agent left is not touched.
fn check_formats(journal: &Path, mark: &Path) -> Result<(), JournalError> {
    let check = |path: &Path, format: fn(&[u8]) -> u64, known: u64| {
        let newer = match first_bytes(path) {
            Ok(bytes) => NewerFormat::check(format(&bytes), known).err()?,
            // Whoever opens it next says what is wrong.
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

/// With all of a first line.
fn first_bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(1024).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The quarantine is kept, too: whoever is started next must not trust what was made of it.
fn untrusted(mut entries: Vec<Entry>, aside: Option<PathBuf>, why: &str) -> Found {
    entries.push(Entry::Quarantined);
    let why = why.to_owned();
    Found::Untrusted { entries, aside, why }
}

impl<D: Disk> Journal<D> {
    /// When it returns, the entries survive a crash of this process. On an error nothing of them is
    /// there.
    pub fn append(&mut self, entries: &[Entry]) -> io::Result<()> {
        if self.spoiled {
            self.disk.cut(self.length)?;
            self.spoiled = false;
        }
        if !entries.iter().all(line::can_be_written) {
            // It would be read as something else, or as damage.
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
            // A full disk takes a part. It must go before anything else is written.
            self.spoiled = self.disk.cut(self.length).is_err();
            return Err(error);
        }
        self.length += length(&text);
        self.lines += entries.len();
        // A mark that lags behind only means that less is missed when the journal is put back.
        if let Err(error) = self.mark.advance(self.id, self.length) {
            warn!(%error, "the mark of the journal can't be written");
        }
        Ok(())
    }

    /// In bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// How many lines it has: for whoever decides when to compact it.
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
    /// Up to where lines are whole, and how many they are.
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
                    // Of an earlier boot nothing is worth reading, nor its damage.
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
        // The file was never in place in this state, whoever left it there.
        read.damage = Some("its first line is missing".to_owned());
    }
    read
}

fn appending(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).open(path)
}

/// Under the first name that is free: nothing that a person may want to look at is overwritten.
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
