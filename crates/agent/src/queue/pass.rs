//! Reading the directory from its start to its end, some files at a time, however many there are.

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime};

use berth_api::agent::RESERVE;
use rustix::fs::{AtFlags, Dir, FileType, unlinkat};
use tracing::{info, warn};

use super::entry::{self, Broken, Found, Why};
use super::{ASIDE, Flavour, Mark, Survey, is_trusted, look, removal};

/// A plugin finishes a file within milliseconds: an unfinished file of this age was abandoned.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A file that is added or removed during the pass may be read or missed; every other file is read
/// once.
#[derive(Debug)]
pub struct Pass {
    directory: OwnedFd,
    names: Dir,
    flavour: Flavour,
}

impl Pass {
    pub(super) fn begin(directory: OwnedFd, flavour: Flavour) -> io::Result<Self> {
        let names = Dir::read_from(&directory)?;
        Ok(Self {
            directory,
            names,
            flavour,
        })
    }

    /// The next files, at most `limit`; none at the end.
    pub fn batch(&mut self, limit: usize) -> io::Result<Vec<Found>> {
        let now = SystemTime::now();
        let mut batch = Vec::new();
        while batch.len() < limit {
            let Some((name, kind)) = self.next()? else {
                break;
            };
            if name.as_bytes().starts_with(b".") {
                self.tidy(&name, now)?;
                continue;
            }
            if self.is_mark(&name)? {
                continue;
            }
            let why = match kind {
                FileType::RegularFile | FileType::Unknown => None,
                FileType::Symlink => Some(Why::Link),
                FileType::Directory if name == ASIDE => continue,
                _ => Some(Why::NoFile),
            };
            match why {
                Some(why) => batch.push(Found::Broken(Broken { name, why })),
                None => match entry::read(
                    std::os::fd::AsFd::as_fd(&self.directory),
                    &name,
                    self.flavour,
                    now,
                ) {
                    Ok(found) => batch.extend(found),
                    // The entry stays, and does not hold up the others.
                    Err(error) => {
                        warn!(%error, name = %name.display(), "cannot read a release queue entry; \
                                                               leaving it for the next pass")
                    }
                },
            }
        }
        Ok(batch)
    }

    /// Counts the files that are not read yet.
    pub(super) fn survey(mut self) -> io::Result<Survey> {
        let mut survey = Survey::default();
        while let Some((name, kind)) = self.next()? {
            let is_aside = name == ASIDE && kind == FileType::Directory;
            if name.as_bytes().starts_with(b".") || is_aside {
                continue;
            }
            let found = match look(&self.directory, &name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                found => found?,
            };
            if let Some(mark) = self.mark_of(&name, &found) {
                survey.mark = survey.mark.max(Some(mark));
                continue;
            }
            let written = found.modified()?;
            survey.depth += 1;
            survey.oldest = Some(survey.oldest.map_or(written, |oldest| oldest.min(written)));
        }
        Ok(survey)
    }

    fn next(&mut self) -> io::Result<Option<(OsString, FileType)>> {
        loop {
            let Some(found) = self.names.read() else {
                return Ok(None);
            };
            let found = found?;
            let name = OsStr::from_bytes(found.file_name().to_bytes());
            if name != "." && name != ".." {
                return Ok(Some((name.to_owned(), found.file_type())));
            }
        }
    }

    /// A mark that another user could have made is a broken entry.
    fn mark_of(&self, name: &OsStr, found: &Metadata) -> Option<Mark> {
        let is_ours = self.flavour == Flavour::Ours && found.is_file() && is_trusted(found);
        Mark::of(name).filter(|_| is_ours)
    }

    fn is_mark(&self, name: &OsStr) -> io::Result<bool> {
        if Mark::of(name).is_none() {
            return Ok(false);
        }
        match look(&self.directory, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            found => Ok(self.mark_of(name, &found?).is_some()),
        }
    }

    /// Handles names that begin with a dot: it restores entries that were being removed and deletes
    /// abandoned files. In other vendors' directories it deletes nothing.
    fn tidy(&self, name: &OsStr, now: SystemTime) -> io::Result<()> {
        // No entry is being removed during a pass, so an earlier agent has left this one.
        if removal::restore(&self.directory, name)?
            || self.flavour != Flavour::Ours
            || name == RESERVE
        {
            return Ok(());
        }
        let found = match look(&self.directory, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            found => found?,
        };
        let age = now.duration_since(found.modified()?).unwrap_or_default();
        if found.is_file()
            && age > ABANDONED
            && unlinkat(&self.directory, name, AtFlags::empty()).is_ok()
        {
            info!(name = %name.display(), "removed an abandoned, half-written file from the \
                                           release queue");
        }
        Ok(())
    }
}
