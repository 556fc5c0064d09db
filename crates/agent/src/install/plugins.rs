//! The plugins: programs in a directory of their own, or one program that answers to both names.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tracing::info;

use super::place::{Place, Staged};
use super::{InstallError, PLUGINS, shown};

const MODE: u32 = 0o755;

/// Where plugins come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Has a program for each of them.
    Directory(PathBuf),
    /// Answers to the name of each.
    Program(PathBuf),
}

impl Source {
    /// The plugins beside a program, if both are there: a separate plugin starts faster. Else the
    /// program itself.
    pub fn beside(program: &Path) -> Self {
        let directory = program.parent().unwrap_or(Path::new("/"));
        if PLUGINS.iter().all(|plugin| directory.join(plugin).is_file()) {
            Self::Directory(directory.to_owned())
        } else {
            Self::Program(program.to_owned())
        }
    }

    fn path(&self, plugin: &str) -> PathBuf {
        match self {
            Self::Directory(directory) => directory.join(plugin),
            Self::Program(program) => program.clone(),
        }
    }
}

pub fn install(source: &Source, place: &Place<'_>) -> Result<(), InstallError> {
    let mut staged: Vec<Staged<'_>> = Vec::new();
    for plugin in PLUGINS {
        let path = source.path(plugin);
        let unreadable = |error| InstallError::Source {
            path: shown(&path),
            error,
        };
        let is_same = is_same(&path, &place.path(plugin)).map_err(unreadable)?;
        if is_same {
            continue;
        }
        // One program under two names is stored once, as a hard link.
        let twin = staged
            .first()
            .map(Staged::path)
            .filter(|_| matches!(source, Source::Program(_)));
        let linked =
            twin.map(|twin| place.prepared(plugin, |unfinished| fs::hard_link(twin, unfinished)));
        let whole = match linked {
            Some(Ok(linked)) => linked,
            _ => place
                .stage(plugin, MODE, |file| io::copy(&mut File::open(&path)?, file).map(drop))?,
        };
        staged.push(whole);
    }
    // All files are written: what is left, the renames, takes no room and hardly any time.
    for whole in staged {
        whole.put()?;
    }
    info!(directory = %place.directory.display(), "CNI plugins are installed");
    Ok(())
}

pub fn remove(place: &Place<'_>) -> Result<(), InstallError> {
    // Tries to remove both, even if one of them fails.
    let removed = PLUGINS.map(|plugin| place.remove(plugin));
    removed.into_iter().collect()
}

/// Returns only errors of the source. An installed file that can't be read counts as different.
fn is_same(source: &Path, installed: &Path) -> io::Result<bool> {
    let source = File::open(source)?;
    let metadata = source.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    let there = match fs::symlink_metadata(installed) {
        Ok(there) if there.is_file() && there.len() == metadata.len() => there,
        _ => return Ok(false),
    };
    match File::open(installed) {
        Ok(installed) if there.permissions().mode() & 0o7777 == MODE => {
            have_same_bytes(source, installed)
        }
        _ => Ok(false),
    }
}

fn have_same_bytes(one: File, other: File) -> io::Result<bool> {
    const CHUNK: usize = 64 << 10;
    let (mut one, mut other) = (BufReader::new(one), BufReader::new(other));
    let (mut left, mut right) = (Vec::new(), Vec::new());
    loop {
        left.clear();
        right.clear();
        let chunk = u64::try_from(CHUNK).unwrap_or(u64::MAX);
        one.by_ref().take(chunk).read_to_end(&mut left)?;
        other.by_ref().take(chunk).read_to_end(&mut right)?;
        if left != right {
            return Ok(false);
        }
        if left.is_empty() {
            return Ok(true);
        }
    }
}
