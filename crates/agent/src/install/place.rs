//! A directory into which files are written whole or not at all.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{InstallError, shown};

#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    pub flag: &'static str,
    pub directory: &'a Path,
}

/// A file that is written but not in its place yet. Dropping it removes the file.
#[derive(Debug)]
pub struct Staged<'a> {
    place: Place<'a>,
    name: &'a str,
    is_placed: bool,
}

impl<'a> Place<'a> {
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The path of an unfinished file. Its name begins with a dot, so that no runtime reads or
    /// calls it.
    fn unfinished(&self, name: &str) -> PathBuf {
        self.directory.join(format!(".{name}.new"))
    }

    /// Writes a file beside its place. It is durable when this returns.
    pub fn stage(
        self,
        name: &'a str,
        mode: u32,
        write: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> Result<Staged<'a>, InstallError> {
        self.prepared(name, |unfinished| {
            let mut file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(mode)
                .open(unfinished)?;
            // Whatever the umask is.
            file.set_permissions(Permissions::from_mode(mode))?;
            write(&mut file)?;
            file.sync_all()
        })
    }

    /// Stages a file that `make` creates at the path it is given.
    pub fn prepared(
        self,
        name: &'a str,
        make: impl FnOnce(&Path) -> io::Result<()>,
    ) -> Result<Staged<'a>, InstallError> {
        let unfinished = self.unfinished(name);
        let made = || {
            DirBuilder::new().recursive(true).mode(0o755).create(self.directory)?;
            // An unfinished file of a process that was killed.
            remove(&unfinished)?;
            make(&unfinished)
        };
        let staged = Staged {
            place: self,
            name,
            is_placed: false,
        };
        made().map_err(|error| self.write_error(name, error))?;
        Ok(staged)
    }

    /// Removes a file. A missing file is not an error.
    pub fn remove(&self, name: &str) -> Result<(), InstallError> {
        let removed = remove(&self.path(name)).and_then(|()| remove(&self.unfinished(name)));
        removed.map_err(|error| InstallError::Remove {
            flag: self.flag,
            directory: shown(self.directory),
            name: name.to_owned(),
            error,
        })
    }

    pub fn write_error(&self, name: &str, error: io::Error) -> InstallError {
        InstallError::Write {
            flag: self.flag,
            directory: shown(self.directory),
            name: name.to_owned(),
            error,
        }
    }
}

impl Staged<'_> {
    pub fn path(&self) -> PathBuf {
        self.place.unfinished(self.name)
    }

    pub fn put(mut self) -> Result<(), InstallError> {
        let put = fs::rename(self.path(), self.place.path(self.name));
        put.map_err(|error| self.place.write_error(self.name, error))?;
        self.is_placed = true;
        let synced = File::open(self.place.directory).and_then(|directory| directory.sync_all());
        synced.map_err(|error| self.place.write_error(self.name, error))
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if !self.is_placed {
            // On an error, the next installation removes the file.
            let _ = remove(&self.path());
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        // A missing directory, or a file in its place, has nothing in it.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(())
        }
        removed => removed,
    }
}
