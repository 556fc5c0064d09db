//! Where blocks are kept. A block is the unit of compare-and-swap: whoever writes one names the
//! version that it read, and a write over another version is refused. That is why two ledgers that
//! both believe to be alone can't give one unit twice, whatever else they do.

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

/// Of one block. It grows with every write, also of a block that was removed and made again.
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
    /// `None`: there must be no such block.
    pub expected: Option<Version>,
    /// `None`, or an empty record: the block goes.
    pub record: Option<Arc<Record>>,
}

/// How one compare-and-swap went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Durable. The block's new version, or `None` when it is gone.
    Done(Option<Version>),
    /// The block is not at the expected version: nothing was written.
    Conflict,
    /// The store will not have it, whoever writes it: nothing was written, and trying again does
    /// not help. Why, for people.
    Refused(String),
    /// No answer, or one that does not say: it may have been written. Read it again before anything
    /// else.
    Unknown,
}

/// What happened to a block, by whomever.
#[derive(Clone, Debug)]
pub enum Change {
    Written(Stored),
    /// The block is gone that had this version, or one before it. One that was made after that has
    /// a higher one.
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

/// Blocks, kept so that an answer means they survive.
pub trait Store: Send + Sync + std::fmt::Debug + 'static {
    /// Whether others can write beside this process: then its ledger watches, and expects
    /// conflicts.
    fn is_shared(&self) -> bool;

    /// All blocks of a subnet.
    fn load<'a>(&'a self, subnet: &'a str) -> BoxFuture<'a, Result<Vec<Stored>, StoreError>>;

    fn read<'a>(&'a self, key: &'a BlockKey) -> BoxFuture<'a, Result<Option<Stored>, StoreError>>;

    /// Each by itself: some may be done and others not. The answers are in the order of the writes.
    /// Writes that come together may share what makes them durable. No two of them are for the same
    /// block.
    fn write(&self, writes: Vec<Write>) -> BoxFuture<'_, Vec<Written>>;

    /// All changes of a subnet's blocks, our own too, from before this call returned: who watches
    /// first and loads then misses nothing. Ends never; after a break it says [`Change::Lost`].
    fn watch<'a>(
        &'a self,
        subnet: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Change>, StoreError>>;

    /// The document that says which subnets there are, see [`crate::Ledger::set_subnet`]. `None`
    /// when it was never written.
    fn read_plan(&self) -> BoxFuture<'_, Result<Option<Document>, StoreError>>;

    /// Whether it was written: not when it is at another version than `expected`. After an error it
    /// may have been.
    fn swap_plan(
        &self,
        expected: Option<Version>,
        text: Vec<u8>,
    ) -> BoxFuture<'_, Result<bool, StoreError>>;

    /// Where that document is, for messages.
    fn plan_place(&self) -> String {
        "memory".to_owned()
    }

    /// The subnets that have blocks, living or not.
    fn subnets(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>>;
}
