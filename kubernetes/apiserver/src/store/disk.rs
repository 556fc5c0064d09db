//! The store on disk: one redb file, open in one process at a time. A commit is one transaction
//! with one fsync.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use berth_kit::private_file;
use berth_kit::redb_file::{self, FORMAT, NUMBERS};
use bytes::Bytes;
use redb::{Database, DatabaseError, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use super::record::{Key, Record};

/// `table\0namespace\0name` → version (8 bytes, big endian) and JSON.
const OBJECTS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("objects");
/// The last assigned version.
const VERSION: &str = "version";
/// Raised when the file changes in a way that an older program can't read.
const CURRENT_FORMAT: u64 = 1;

/// All objects are in memory anyway, so redb's own cache only needs to hold what a commit touches.
const CACHE_BYTES: usize = 8 << 20;

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "data directory {0} is in use by another process; stop that one or choose another directory"
    )]
    InUse(PathBuf),
    #[error("data directory {path} can't be used: {error}; choose one that you may write to")]
    Directory { path: PathBuf, error: std::io::Error },
    #[error("{path} is damaged: {why}; restore it from a copy, or move it away to start empty")]
    Damaged { path: PathBuf, why: String },
    #[error("{path}: {error}")]
    Newer { path: PathBuf, error: redb_file::OpenError },
}

#[derive(Debug)]
pub struct Disk {
    database: Database,
}

#[derive(Debug, Default)]
pub struct Found {
    pub version: u64,
    pub objects: Vec<(Key, Record)>,
}

impl Disk {
    pub fn open(directory: &Path) -> Result<(Self, Found), OpenError> {
        let unusable = |error| OpenError::Directory {
            path: directory.to_owned(),
            error,
        };
        // Secrets are stored here too, so only the owner may read the directory.
        let mut builder = DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(unusable)?;
        let path = directory.join("objects.redb");
        let damaged = |why: redb::Error| OpenError::Damaged {
            path: path.clone(),
            why: why.to_string(),
        };
        // The directory may be older, and readable by all.
        let file = private_file::open(&path).map_err(unusable)?;
        private_file::wait_until_unlocked(&file).map_err(unusable)?;
        let opened = redb_file::open(file, CACHE_BYTES, CURRENT_FORMAT);
        let (database, _) = opened.map_err(|error| match error {
            redb_file::OpenError::Database(error) => match error {
                DatabaseError::DatabaseAlreadyOpen => OpenError::InUse(directory.to_owned()),
                DatabaseError::Storage(redb::StorageError::Io(error))
                    if error.kind() != std::io::ErrorKind::InvalidData
                        && error.kind() != std::io::ErrorKind::UnexpectedEof =>
                {
                    unusable(error)
                }
                other => damaged(other.into()),
            },
            redb_file::OpenError::Unreadable(error) => damaged(*error),
            error @ redb_file::OpenError::Newer { .. } => OpenError::Newer {
                path: path.clone(),
                error,
            },
        })?;
        let disk = Self { database };
        let found = disk.load().map_err(|error| match error {
            LoadError::Redb(error) => damaged(error),
            LoadError::Entry(why) => OpenError::Damaged {
                path: path.clone(),
                why,
            },
        })?;
        Ok((disk, found))
    }

    fn load(&self) -> Result<Found, LoadError> {
        // The first transaction creates the tables, so that an empty file does not count as
        // damaged.
        let transaction = self.database.begin_write()?;
        {
            let mut numbers = transaction.open_table(NUMBERS)?;
            if numbers.get(FORMAT)?.is_none() {
                numbers.insert(FORMAT, CURRENT_FORMAT)?;
            }
            transaction.open_table(OBJECTS)?;
        }
        transaction.commit()?;

        let transaction = self.database.begin_read()?;
        let version = transaction.open_table(NUMBERS)?.get(VERSION)?;
        let mut found = Found {
            version: version.map_or(0, |version| version.value()),
            ..Found::default()
        };
        for entry in transaction.open_table(OBJECTS)?.iter()? {
            let (key, value) = entry?;
            let entry = decode(key.value(), value.value()).ok_or_else(|| {
                LoadError::Entry(format!("entry {:?}", key.value().escape_ascii().to_string()))
            })?;
            found.objects.push(entry);
        }
        Ok(found)
    }

    /// The changes are durable when this returns. On an error the transaction is dropped, and none
    /// of them counts.
    pub fn write<'a>(
        &self,
        version: u64,
        changes: impl Iterator<Item = (&'a Key, Option<&'a Record>)>,
    ) -> Result<(), redb::Error> {
        let mut transaction = self.database.begin_write()?;
        transaction.set_durability(Durability::Immediate)?;
        {
            let mut objects = transaction.open_table(OBJECTS)?;
            let mut value = Vec::new();
            for (key, record) in changes {
                let key = encode_key(key);
                match record {
                    Some(record) => {
                        value.clear();
                        value.extend_from_slice(&record.version.to_be_bytes());
                        value.extend_from_slice(&record.body);
                        objects.insert(key.as_slice(), value.as_slice())?;
                    }
                    None => drop(objects.remove(key.as_slice())?),
                }
            }
            transaction.open_table(NUMBERS)?.insert(VERSION, version)?;
        }
        Ok(transaction.commit()?)
    }
}

enum LoadError {
    Redb(redb::Error),
    Entry(String),
}

impl<E: Into<redb::Error>> From<E> for LoadError {
    fn from(error: E) -> Self {
        Self::Redb(error.into())
    }
}

fn encode_key(key: &Key) -> Vec<u8> {
    [&*key.table, &*key.namespace, &*key.name].join("\0").into_bytes()
}

fn decode(key: &[u8], value: &[u8]) -> Option<(Key, Record)> {
    let key = std::str::from_utf8(key).ok()?;
    let mut parts = key.split('\0');
    let key = Key::new(parts.next()?, parts.next()?, parts.next()?);
    let (version, body) = value.split_first_chunk::<8>()?;
    let record = Record {
        version: u64::from_be_bytes(*version),
        body: Bytes::copy_from_slice(body),
    };
    Some((key, record))
}
