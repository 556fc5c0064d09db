//! A redb file that records its format. A file in a newer format is refused before a byte of it
//! changes.
//!
//! redb writes when it opens a file and when it closes it. So what it writes is held back until the
//! format is known. Then the same writes and syncs reach the file in the same order, and a crash in
//! between has the same effect as without this.

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

use parking_lot::RwLock;
use redb::backends::FileBackend;
use redb::{
    BackendError, Builder, Database, DatabaseError, ReadableDatabase, StorageBackend, StorageError,
    TableDefinition, TableError,
};

/// Numbers by name. Every file of ours has this table.
pub const NUMBERS: TableDefinition<&str, u64> = TableDefinition::new("numbers");
/// The name of the format number. The number is raised when the tables change in a way that an
/// older program can't read.
pub const FORMAT: &str = "format";

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Database(#[from] DatabaseError),
    #[error("{0}")]
    Unreadable(Box<redb::Error>),
    /// Nothing was changed.
    #[error(
        "it is in format {found}, and this program knows formats up to {known}: run the newer \
         Berth that wrote it; nothing was changed"
    )]
    Newer { found: u64, known: u64 },
}

impl OpenError {
    fn unreadable(error: impl Into<redb::Error>) -> Self {
        Self::Unreadable(Box::new(error.into()))
    }
}

/// Opens the file and returns the format that it records: `None` for a new file.
pub fn open(
    file: File,
    cache_bytes: usize,
    known: u64,
) -> Result<(Database, Option<u64>), OpenError> {
    let storage = Arc::new(Storage {
        file: FileBackend::new(file)?,
        held_back: RwLock::new(Some(Vec::new())),
    });
    let backend = Backend(Arc::clone(&storage));
    let database = Builder::new()
        .set_cache_size(cache_bytes)
        .create_with_backend(backend)?;
    let format = format(&database)?;
    match format {
        Some(found) if found > known => Err(OpenError::Newer { found, known }),
        format => {
            let released = storage.release().map_err(StorageError::Io);
            released.map_err(DatabaseError::Storage)?;
            Ok((database, format))
        }
    }
}

fn format(database: &Database) -> Result<Option<u64>, OpenError> {
    let reading = database.begin_read().map_err(OpenError::unreadable)?;
    let numbers = match reading.open_table(NUMBERS) {
        Err(TableError::TableDoesNotExist(_)) => return Ok(None),
        numbers => numbers.map_err(OpenError::unreadable)?,
    };
    let found = numbers.get(FORMAT).map_err(OpenError::unreadable)?;
    Ok(found.map(|found| found.value()))
}

#[derive(Debug)]
enum Step {
    Write(u64, Vec<u8>),
    SetLength(u64),
    Sync,
}

#[derive(Debug)]
struct Storage {
    file: FileBackend,
    /// `None` once all steps are in the file: from then on everything is written directly.
    held_back: RwLock<Option<Vec<Step>>>,
}

impl Storage {
    fn release(&self) -> io::Result<()> {
        let mut held_back = self.held_back.write();
        for step in held_back.iter().flatten() {
            match step {
                Step::Write(offset, bytes) => self.file.write(*offset, bytes)?,
                Step::SetLength(length) => self.file.set_len(*length)?,
                Step::Sync => self.file.sync_data()?,
            }
        }
        *held_back = None;
        Ok(())
    }

    /// Applies the step to the file, or appends it to those that are held back.
    fn step(&self, step: Step, now: impl FnOnce(&FileBackend) -> io::Result<()>) -> io::Result<()> {
        if self.held_back.read().is_none() {
            return now(&self.file);
        }
        match self.held_back.write().as_mut() {
            Some(steps) => {
                steps.push(step);
                Ok(())
            }
            None => now(&self.file),
        }
    }

    fn length(&self, steps: &[Step]) -> io::Result<u64> {
        let length = self.file.len()?;
        Ok(steps.iter().fold(length, |length, step| match step {
            Step::Write(offset, bytes) => length.max(offset + size(bytes)),
            Step::SetLength(length) => *length,
            Step::Sync => length,
        }))
    }

    /// Reads the file as if the steps had been applied.
    fn read_with(&self, steps: &[Step], offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset + size(out) > self.length(steps)? {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        out.fill(0);
        let there = self.file.len()?.saturating_sub(offset);
        let there = usize::try_from(there).unwrap_or(usize::MAX).min(out.len());
        if let Some(part) = out.get_mut(..there).filter(|part| !part.is_empty()) {
            self.file.read(offset, part)?;
        }
        for step in steps {
            match step {
                Step::Write(at, bytes) => overlay(offset, out, *at, bytes),
                Step::SetLength(length) => {
                    let kept = usize::try_from(length.saturating_sub(offset));
                    let gone = out.get_mut(kept.unwrap_or(usize::MAX)..);
                    gone.unwrap_or_default().fill(0);
                }
                Step::Sync => {}
            }
        }
        Ok(())
    }
}

fn size(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

/// Copies the part of `bytes` that overlaps `out`. `bytes` begins at `at`, and `out` at `offset`.
fn overlay(offset: u64, out: &mut [u8], at: u64, bytes: &[u8]) {
    let start = offset.max(at);
    let end = (offset + size(out)).min(at + size(bytes));
    if start >= end {
        return;
    }
    let part = |from: u64| {
        let index = |place: u64| usize::try_from(place - from).unwrap_or(usize::MAX);
        index(start)..index(end)
    };
    if let (Some(to), Some(from)) = (out.get_mut(part(offset)), bytes.get(part(at))) {
        to.copy_from_slice(from);
    }
}

/// The storage that redb gets.
#[derive(Debug)]
struct Backend(Arc<Storage>);

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        let Storage { file, held_back } = &*self.0;
        match held_back.read().as_deref() {
            None => file.len(),
            Some(steps) => self.0.length(steps),
        }
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let Storage { file, held_back } = &*self.0;
        match held_back.read().as_deref() {
            None => file.read(offset, out),
            Some(steps) => self.0.read_with(steps, offset, out),
        }
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        self.0.step(Step::SetLength(length), |file| file.set_len(length))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.step(Step::Sync, FileBackend::sync_data)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        // A write that goes straight to the file needs no copy.
        if self.0.held_back.read().is_none() {
            return self.0.file.write(offset, bytes);
        }
        self.0
            .step(Step::Write(offset, bytes.to_vec()), |file| file.write(offset, bytes))
    }

    fn close(&self) -> io::Result<()> {
        self.0.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.0.file.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.file.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.file.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.0.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.0.file.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests;
