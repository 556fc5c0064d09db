//! Where blocks are kept. A block is the unit of compare-and-swap: a writer names the version that
//! it read, and a write over another version is refused. So two ledgers can't give one unit twice,
//! even if both believe that they are alone.

mod changes;
mod codec;
mod etcd;
mod kubernetes;
mod memory;
mod name;
mod redb;

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;

use crate::record::{BlockKey, Record};

pub use etcd::{EtcdDocument, EtcdFiles, EtcdStore, EtcdTls};
pub use kubernetes::KubernetesStore;
pub use memory::MemoryStore;
pub use redb::RedbStore;

/// The version of a block. It grows with every write, also when a block is removed and made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

/// A block as it is in a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub key: BlockKey,
    pub version: Version,
    pub record: Arc<Record>,
}

/// One compare-and-swap.
#[derive(Clone, Debug)]
pub struct Write {
    pub key: BlockKey,
    /// `None`: the block must not exist.
    pub expected: Option<Version>,
    /// `None`, or an empty record: the block is removed.
    pub record: Option<Arc<Record>>,
}

/// How one compare-and-swap went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Durable. The block's new version, or `None` when it is gone.
    Done(Option<Version>),
    /// The block is not at the expected version: nothing was written.
    Conflict,
    /// The store refuses the write from any writer: nothing was written, and a retry does not help.
    /// Holds the reason, for people.
    Refused(String),
    /// No answer, or one that does not say: it may have been written. Read it again before anything
    /// else.
    Unknown,
}

/// A change of a block by any writer.
#[derive(Clone, Debug)]
pub enum Change {
    Written(Stored),
    /// The block with this version, or an earlier one, was removed. A block that is made later has
    /// a higher version.
    Removed(BlockKey, Version),
    /// Changes may have been missed: load everything again.
    Lost,
}

/// A document and its version.
pub type Document = (Version, Vec<u8>);

/// The store can't be reached, or holds something that is not a block. Tried again by the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{store}: {why}")]
pub struct StoreError {
    pub store: &'static str,
    pub why: String,
}

impl StoreError {
    pub fn new(store: &'static str, why: impl std::fmt::Display) -> Self {
        Self {
            store,
            why: why.to_string(),
        }
    }
}

/// A durable store of blocks: an answered write survives.
pub trait Store: Send + Sync + std::fmt::Debug + 'static {
    /// Whether other processes can write, too: then the ledger watches, and expects conflicts.
    fn is_shared(&self) -> bool;

    /// All blocks of a subnet.
    fn load<'a>(&'a self, subnet: &'a str) -> BoxFuture<'a, Result<Vec<Stored>, StoreError>>;

    fn read<'a>(&'a self, key: &'a BlockKey) -> BoxFuture<'a, Result<Option<Stored>, StoreError>>;

    /// Writes each block by itself: some may be done and others not. The results are in the order
    /// of the writes. Writes that come together may share an fsync. No two of them may be for the
    /// same block.
    fn write(&self, writes: Vec<Write>) -> BoxFuture<'_, Vec<Written>>;

    /// All changes of a subnet's blocks, our own too, from before this call returned: a caller that
    /// watches first and then loads misses nothing. The stream never ends; after a break it gives
    /// [`Change::Lost`].
    fn watch<'a>(
        &'a self,
        subnet: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Change>, StoreError>>;

    /// The document that says which subnets there are, see [`crate::Ledger::set_subnet`]. `None`
    /// when it was never written.
    fn read_plan(&self) -> BoxFuture<'_, Result<Option<Document>, StoreError>>;

    /// Returns whether the document was written: not if it has another version than `expected`.
    /// After an error it may have been.
    fn swap_plan(
        &self,
        expected: Option<Version>,
        text: Vec<u8>,
    ) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Where that document is, for messages.
    fn plan_place(&self) -> String {
        "memory".to_owned()
    }

    /// The subnets that have blocks, registered or not.
    fn subnets(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>>;
}
