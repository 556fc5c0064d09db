//! A store whose writes can be held up.

use std::sync::Arc;

use berth_ledger::BlockKey;
use berth_ledger::store::{
    Change, Document, MemoryStore, Store, StoreError, Stored, Version, Write, Written,
};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::BoxStream;
use tokio::sync::{Notify, watch};

/// Clones are the same gate.
#[derive(Clone, Debug)]
pub struct Gate {
    store: MemoryStore,
    closed: watch::Sender<bool>,
    reached: Arc<Notify>,
}

impl Default for Gate {
    fn default() -> Self {
        Self {
            store: MemoryStore::default(),
            closed: watch::Sender::new(false),
            reached: Arc::default(),
        }
    }
}

impl Gate {
    pub fn close(&self) {
        self.closed.send_replace(true);
    }

    pub fn open(&self) {
        self.closed.send_replace(false);
    }

    /// Returns when a write stands before the closed gate.
    pub async fn reached(&self) {
        self.reached.notified().await;
    }
}

impl Store for Gate {
    fn is_shared(&self) -> bool {
        self.store.is_shared()
    }

    fn load<'a>(&'a self, subnet: &'a str) -> BoxFuture<'a, Result<Vec<Stored>, StoreError>> {
        self.store.load(subnet)
    }

    fn read<'a>(&'a self, key: &'a BlockKey) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        self.store.read(key)
    }

    fn write(&self, writes: Vec<Write>) -> BoxFuture<'_, Vec<Written>> {
        async {
            let mut closed = self.closed.subscribe();
            if *closed.borrow() {
                self.reached.notify_one();
            }
            closed.wait_for(|closed| !closed).await.unwrap();
            self.store.write(writes).await
        }
        .boxed()
    }

    fn watch<'a>(
        &'a self,
        subnet: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Change>, StoreError>> {
        self.store.watch(subnet)
    }

    fn read_plan(&self) -> BoxFuture<'_, Result<Option<Document>, StoreError>> {
        self.store.read_plan()
    }

    fn swap_plan(
        &self,
        expected: Option<Version>,
        text: Vec<u8>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.store.swap_plan(expected, text)
    }

    fn subnets(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        self.store.subnets()
    }
}
