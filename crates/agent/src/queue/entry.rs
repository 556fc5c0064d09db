//! One file of the release queue: an entry, or what is wrong with it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use berth_api::agent::{RELEASE_FORMAT, Release, entry_of};
use berth_api::cni::Attachment;
use berth_api::format::NewerFormat;
use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use tracing::warn;

use super::{Flavour, Stamp, is_trusted};

/// An entry has a few hundred bytes.
const MAX_BYTES: u64 = 64 << 10;
/// In a directory whose files are written in place, an empty file younger than this may still get
/// its content.
const MIN_AGE: Duration = Duration::from_secs(10);
/// How many letters of a container's id azure-vnet uses in the name of a pod's interface.
const SHORT_ID: usize = 8;

/// What a file turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Entry(Entry),
    Broken(Broken),
}

/// To be released, and then removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub queued: Queued,
    pub(super) stamp: Stamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queued {
    Release(Release),
    /// All interfaces of the container that azure-ipam knows by this name: its files don't name
    /// them.
    Container(String),
}

/// A file that is not released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    pub name: OsString,
    pub why: Why,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    #[error("its name is not an entry's")]
    Name,
    #[error("it is not a file")]
    NoFile,
    #[error("it is a link")]
    Link,
    #[error(
        "its owner is user {user}, its mode {mode:o}, but only root and the agent may queue \
         releases: run the plugins as root, and let nobody else write"
    )]
    Untrusted { user: u32, mode: u32 },
    #[error("it is empty")]
    Empty,
    #[error("it is longer than {MAX_BYTES} bytes")]
    Huge,
    #[error("it is not UTF-8")]
    NotText,
    #[error("it is not a release: {0}")]
    Content(String),
    #[error("it is about another attachment than its name says: {0}")]
    Mismatch(String),
    #[error("it can't be opened: {0}")]
    Closed(String),
}

impl Why {
    pub(super) fn untrusted(metadata: &Metadata) -> Self {
        Self::Untrusted {
            user: metadata.uid(),
            mode: metadata.mode() & 0o7777,
        }
    }
}

/// `None` when the file is gone or not finished yet. An error means that the directory can't be
/// read now, and says nothing about the file.
pub fn read(
    directory: BorrowedFd<'_>,
    name: &OsStr,
    flavour: Flavour,
    now: SystemTime,
) -> io::Result<Option<Found>> {
    read_as(directory, name, name, flavour, now)
}

/// Reads an entry that has another file name for now.
pub fn read_as(
    directory: BorrowedFd<'_>,
    file: &OsStr,
    name: &OsStr,
    flavour: Flavour,
    now: SystemTime,
) -> io::Result<Option<Found>> {
    let broken = |why: Why| {
        let name = name.to_owned();
        Ok(Some(Found::Broken(Broken { name, why })))
    };
    // A file with a bad name need not be opened.
    let Some((text_name, id)) = name
        .to_str()
        .and_then(|text| Id::of(text, flavour).map(|id| (text, id)))
    else {
        return broken(Why::Name);
    };
    // Opening must not block, as on a pipe, nor follow a link.
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match openat(directory, file, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(Errno::LOOP) => return broken(Why::Link),
        Err(Errno::NXIO | Errno::NODEV) => return broken(Why::NoFile),
        Err(error @ (Errno::ACCESS | Errno::PERM)) => {
            return broken(Why::Closed(error.to_string()));
        }
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return broken(Why::NoFile);
    }
    if !is_trusted(&metadata) {
        return broken(Why::untrusted(&metadata));
    }
    if metadata.len() > MAX_BYTES {
        return broken(Why::Huge);
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.is_empty() {
        let age = metadata.modified().ok().and_then(|at| now.duration_since(at).ok());
        if flavour == Flavour::Compat && age.is_none_or(|age| age < MIN_AGE) {
            return Ok(None);
        }
        return broken(Why::Empty);
    }
    if bytes.len() > usize::try_from(MAX_BYTES).unwrap_or(usize::MAX) {
        return broken(Why::Huge);
    }
    let Ok(text) = String::from_utf8(bytes) else {
        return broken(Why::NotText);
    };
    if let Id::Attachment(_) = &id
        && let Err(newer) = NewerFormat::check_json(text.as_bytes(), RELEASE_FORMAT)
    {
        // The entry stays for an agent that knows its format. Until then no pod gets the address.
        warn!(
            name = text_name,
            "skipping a release queue entry; its addresses stay assigned: {newer}"
        );
        return Ok(None);
    }
    match id.queued(&text) {
        Ok(queued) => Ok(Some(Found::Entry(Entry {
            name: text_name.to_owned(),
            queued,
            stamp: Stamp::of(&metadata),
        }))),
        Err(why) => broken(why),
    }
}

/// What the name of an entry stands for.
enum Id {
    Attachment(Attachment),
    Container(String),
}

impl Id {
    fn of(name: &str, flavour: Flavour) -> Option<Self> {
        match flavour {
            Flavour::Ours => entry_of(name).map(Self::Attachment),
            Flavour::Compat => is_container(name).then(|| Self::Container(name.to_owned())),
        }
    }

    fn queued(self, text: &str) -> Result<Queued, Why> {
        match self {
            Self::Attachment(attachment) => {
                let release: Release =
                    serde_json::from_str(text).map_err(|error| Why::Content(error.to_string()))?;
                if release.attachment == attachment {
                    Ok(Queued::Release(release))
                } else {
                    Err(Why::Mismatch(shown(&release.attachment.to_string())))
                }
            }
            Self::Container(container) => {
                let interface = text.trim_end_matches(['\r', '\n']);
                if !is_container(interface) {
                    return Err(Why::Content(format!(
                        "{:?} names no pod's interface",
                        shown(interface)
                    )));
                }
                let short = container.get(..SHORT_ID);
                let is_of_it =
                    short.is_some_and(|short| interface.strip_prefix(short).is_some_and(is_suffix));
                if interface == container || is_of_it {
                    Ok(Queued::Container(interface.to_owned()))
                } else {
                    Err(Why::Mismatch(shown(interface)))
                }
            }
        }
    }
}

fn is_suffix(rest: &str) -> bool {
    rest.strip_prefix('-').is_some_and(|interface| !interface.is_empty())
}

fn is_container(text: &str) -> bool {
    Attachment::new(text, "eth0").is_ok()
}

/// Shortens a text for a message.
fn shown(text: &str) -> String {
    text.chars().take(100).collect()
}
