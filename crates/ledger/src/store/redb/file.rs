//! The content of the file.

use std::fs::File;
use std::io;
use std::net::IpAddr;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use berth_addr::Prefix;
use berth_api::format::NewerFormat;
use berth_kit::{private_file, redb_file};
use redb::{
    Database, DatabaseError, ReadTransaction, ReadableTable, StorageError, TableDefinition,
};

pub use redb_file::{FORMAT, NUMBERS};

use crate::record::BlockKey;
use crate::store::codec::{self, Unreadable};
use crate::store::{Stored, Version};

/// Subnet and place → version (8 bytes, big endian) and the block as [`codec`] writes it.
pub const BLOCKS: TableDefinition<(&str, &Place), &[u8]> = TableDefinition::new("blocks");
/// The last version given out. It stays when blocks are removed, so that a block that is made again
/// does not get an old version.
pub const VERSION: &str = "version";
const CURRENT_FORMAT: u64 = 1;

/// The document over all subnets at once → version (8 bytes, big endian) and text.
const DOCUMENTS: TableDefinition<&str, &[u8]> = TableDefinition::new("documents");
const PLAN: &str = "plan";

/// The first unit: family, address (IPv4 in the last four bytes), prefix length. It sorts as
/// addresses do.
pub type Place = [u8; 18];

/// After every other place.
const BEYOND: Place = [u8::MAX; 18];

/// The ledger has all blocks in memory: redb's own cache only needs what a commit touches.
const CACHE_BYTES: usize = 8 << 20;

/// Why the file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("it is in use by another process: stop that one, or name another file")]
    InUse,
    #[error("it can't be opened: {0}; name a file that you may write to")]
    File(#[from] io::Error),
    #[error("it is damaged: {0}; restore it from a copy")]
    Damaged(redb::Error),
    #[error(transparent)]
    Newer(NewerFormat),
}

/// Why something can't be read.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    // Boxed: it is many times the size of what is read.
    #[error("the file can't be read: {0}")]
    Redb(Box<redb::Error>),
    #[error("block {first} of subnet {subnet} can't be read: {why}; {}", why.fix())]
    Block {
        subnet: String,
        first: String,
        why: Unreadable,
    },
}

impl Fault {
    /// Whether the disk failed, and not the content of the file.
    pub fn is_of_disk(&self) -> bool {
        let Self::Redb(error) = self else {
            return false;
        };
        matches!(**error, redb::Error::Io(_) | redb::Error::PreviousIo)
    }
}

impl<E: Into<redb::Error>> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::Redb(Box::new(error.into()))
    }
}

pub fn open(path: &Path) -> Result<Database, OpenError> {
    // A file that was copied back may be readable for everybody.
    let file = private_file::open(path)?;
    private_file::wait_until_unlocked(&file)?;
    let opened = redb_file::open(file, CACHE_BYTES, CURRENT_FORMAT);
    let (database, format) = opened.map_err(OpenError::of)?;
    // The file is durable only when its name in the directory is.
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()?;
    if format.is_none() {
        make_tables(&database).map_err(OpenError::Damaged)?;
    }
    Ok(database)
}

impl OpenError {
    fn of(error: redb_file::OpenError) -> Self {
        use redb_file::OpenError as Error;
        match error {
            Error::Database(DatabaseError::DatabaseAlreadyOpen) => Self::InUse,
            Error::Database(DatabaseError::Storage(StorageError::Io(error)))
                if !is_damage(&error) =>
            {
                Self::File(error)
            }
            Error::Database(other) => Self::Damaged(other.into()),
            Error::Unreadable(error) => Self::Damaged(*error),
            Error::Newer { found, known } => Self::Newer(NewerFormat { found, known }),
        }
    }
}

fn is_damage(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof)
}

/// Makes the tables in a new file, so that readers always find them.
fn make_tables(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(NUMBERS)?.insert(FORMAT, CURRENT_FORMAT)?;
    transaction.open_table(BLOCKS)?;
    transaction.commit()?;
    Ok(())
}

pub fn load(transaction: &ReadTransaction, subnet: &str) -> Result<Vec<Stored>, Fault> {
    let blocks = transaction.open_table(BLOCKS)?;
    let mut found = Vec::new();
    for entry in blocks.range((subnet, &[0; 18])..=(subnet, &BEYOND))? {
        let (key, value) = entry?;
        let (subnet, place) = key.value();
        found.push(stored(subnet, place, value.value())?);
    }
    Ok(found)
}

pub fn read(transaction: &ReadTransaction, key: &BlockKey) -> Result<Option<Stored>, Fault> {
    let place = place(key.first);
    let blocks = transaction.open_table(BLOCKS)?;
    let found = blocks.get((key.subnet.as_str(), &place))?;
    found
        .map(|value| stored(&key.subnet, &place, value.value()))
        .transpose()
}

pub fn subnets(transaction: &ReadTransaction) -> Result<Vec<String>, Fault> {
    let blocks = transaction.open_table(BLOCKS)?;
    let mut subnets: Vec<String> = Vec::new();
    loop {
        // Skips all blocks of the last subnet: one lookup for each subnet, however many blocks it
        // has.
        let after = subnets.last().map(|last| (last.as_str(), &BEYOND));
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let Some(entry) = blocks.range((start, Bound::Unbounded))?.next() else {
            return Ok(subnets);
        };
        let subnet = entry?.0.value().0.to_owned();
        subnets.push(subnet);
    }
}

pub fn read_plan(transaction: &ReadTransaction) -> Result<Option<(Version, Vec<u8>)>, Fault> {
    let documents = match transaction.open_table(DOCUMENTS) {
        // An older file has no such table.
        Err(redb::TableError::TableDoesNotExist(_)) => return Ok(None),
        documents => documents?,
    };
    let found = documents.get(PLAN)?;
    Ok(found.and_then(|value| split(value.value())))
}

/// Returns whether the document was written. Then it is durable.
pub fn swap_plan(
    database: &Database,
    expected: Option<Version>,
    text: &[u8],
) -> Result<bool, Fault> {
    let transaction = database.begin_write()?;
    {
        let mut documents = transaction.open_table(DOCUMENTS)?;
        let current = documents.get(PLAN)?.and_then(|value| split(value.value()));
        let current = current.map(|(version, _)| version);
        if current != expected {
            return Ok(false);
        }
        let next = current.map_or(1, |Version(version)| version + 1);
        let mut value = next.to_be_bytes().to_vec();
        value.extend_from_slice(text);
        documents.insert(PLAN, value.as_slice())?;
    }
    transaction.commit()?;
    Ok(true)
}

fn split(value: &[u8]) -> Option<(Version, Vec<u8>)> {
    let (version, text) = value.split_first_chunk()?;
    Some((Version(u64::from_be_bytes(*version)), text.to_vec()))
}

pub fn place(first: Prefix) -> Place {
    let (family, address) = match first.first() {
        IpAddr::V4(address) => (4, u128::from(address.to_bits())),
        IpAddr::V6(address) => (6, address.to_bits()),
    };
    let mut place = [0; 18];
    place[0] = family;
    place[1..17].copy_from_slice(&address.to_be_bytes());
    place[17] = first.length();
    place
}

/// Reads only the version, which is all that a comparison needs.
pub fn version(value: &[u8]) -> Result<Version, Unreadable> {
    let version = value.first_chunk().ok_or(Unreadable::TooShort)?;
    Ok(Version(u64::from_be_bytes(*version)))
}

fn stored(subnet: &str, place: &Place, value: &[u8]) -> Result<Stored, Fault> {
    let fault = |why| Fault::Block {
        subnet: subnet.to_owned(),
        first: address(place),
        why,
    };
    let version = version(value).map_err(fault)?;
    let (first, record) = codec::decode(&value[8..]).map_err(fault)?;
    if self::place(first) != *place {
        return Err(fault(Unreadable::Content {
            what: "the first unit",
        }));
    }
    Ok(Stored {
        key: BlockKey {
            subnet: subnet.to_owned(),
            first,
        },
        version,
        record: Arc::new(record),
    })
}

/// The address of a place for messages, even if the block can't be read.
fn address(place: &Place) -> String {
    let [family, address @ .., length] = place;
    let bits = u128::from_be_bytes(*address);
    let address = match u32::try_from(bits) {
        Ok(bits) if *family == 4 => IpAddr::from(bits.to_be_bytes()),
        _ => IpAddr::from(bits.to_be_bytes()),
    };
    format!("{address}/{length}")
}
