//! A store in one file, for one process. Writes that wait together share a transaction, and with it
//! an fsync.
//!
//! Why an answered write survives: the writer answers after redb's commit has returned, and that is
//! after the fsync. Readers see committed transactions only, so nobody reads what a crash could
//! take back.

mod file;
mod slot;
mod writer;

use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use futures::future::{BoxFuture, FutureExt};
use futures::stream::BoxStream;
use redb::{ReadTransaction, ReadableDatabase};
use tokio::sync::oneshot;

use super::changes::Changes;
use super::{Change, Document, Store, StoreError, Stored, Version, Write, Written};
use crate::record::BlockKey;
use file::Fault;
use slot::Slot;
use writer::{Job, Writer};

const STORE: &str = "redb";

/// Dropping it finishes the pending writes and closes the file.
#[derive(Debug)]
pub struct RedbStore {
    slot: Arc<Slot>,
    changes: Changes,
    /// `Some`, like `writer`, until the store is dropped.
    queue: Option<mpsc::Sender<Job>>,
    writer: Option<JoinHandle<()>>,
}

impl RedbStore {
    /// Opens the file, or creates it readable for its owner only. It blocks.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let unusable =
            |why: String| StoreError::new(STORE, format_args!("{}: {why}", path.display()));
        let slot = Arc::new(Slot::open(path).map_err(|error| unusable(error.to_string()))?);
        let changes = Changes::default();
        let (queue, jobs) = mpsc::channel();
        let writer = Writer::new(Arc::clone(&slot), changes.clone());
        let thread = std::thread::Builder::new().name("ledger-writer".to_owned());
        let writer = thread.spawn(move || writer.run(&jobs));
        let writer = writer.map_err(|error| unusable(format!("no thread to write it: {error}")))?;
        Ok(Self {
            slot,
            changes,
            queue: Some(queue),
            writer: Some(writer),
        })
    }

    /// Reads on a thread that may block.
    fn reading<T: Send + 'static>(
        &self,
        read: impl FnOnce(&ReadTransaction) -> Result<T, Fault> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let slot = Arc::clone(&self.slot);
        let read = tokio::task::spawn_blocking(move || {
            let database = slot.database().map_err(|error| StoreError::new(STORE, error))?;
            let done = database
                .begin_read()
                .map_err(Fault::from)
                .and_then(|transaction| read(&transaction));
            if done.as_ref().is_err_and(Fault::is_of_disk) {
                slot.discard(&database);
            }
            done.map_err(|error| StoreError::new(STORE, error))
        });
        async { read.await.map_err(|error| StoreError::new(STORE, error))? }.boxed()
    }
}

impl Drop for RedbStore {
    fn drop(&mut self) {
        drop(self.queue.take());
        if let Some(writer) = self.writer.take() {
            // The writer also holds the file, which must be free for the next open. A writer that
            // panicked has closed it already.
            drop(writer.join());
        }
    }
}

impl Store for RedbStore {
    fn is_shared(&self) -> bool {
        false
    }

    fn load<'a>(&'a self, subnet: &'a str) -> BoxFuture<'a, Result<Vec<Stored>, StoreError>> {
        let subnet = subnet.to_owned();
        self.reading(move |transaction| file::load(transaction, &subnet))
    }

    fn read<'a>(&'a self, key: &'a BlockKey) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        let key = key.clone();
        self.reading(move |transaction| file::read(transaction, &key))
    }

    fn write(&self, writes: Vec<Write>) -> BoxFuture<'_, Vec<Written>> {
        let count = writes.len();
        let (answer, answered) = oneshot::channel();
        if let Some(queue) = &self.queue {
            // A writer that is gone drops the job, and the answer with it.
            drop(queue.send(Job { writes, answer }));
        }
        async move { answered.await.unwrap_or_else(|_| vec![Written::Unknown; count]) }.boxed()
    }

    fn watch<'a>(
        &'a self,
        subnet: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Change>, StoreError>> {
        let changes = self.changes.of(subnet);
        async { Ok(changes) }.boxed()
    }

    fn read_plan(&self) -> BoxFuture<'_, Result<Option<Document>, StoreError>> {
        self.reading(file::read_plan)
    }

    fn swap_plan(
        &self,
        expected: Option<Version>,
        text: Vec<u8>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        let slot = Arc::clone(&self.slot);
        let swap = tokio::task::spawn_blocking(move || {
            let database = slot.database().map_err(|error| StoreError::new(STORE, error))?;
            let done = file::swap_plan(&database, expected, &text);
            if done.as_ref().is_err_and(Fault::is_of_disk) {
                slot.discard(&database);
            }
            done.map_err(|error| StoreError::new(STORE, error))
        });
        async { swap.await.map_err(|error| StoreError::new(STORE, error))? }.boxed()
    }

    fn plan_place(&self) -> String {
        self.slot.path().display().to_string()
    }

    fn subnets(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        self.reading(file::subnets)
    }
}

#[cfg(test)]
mod tests;
