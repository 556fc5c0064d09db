//! A store that stops at a chosen step: before a write reaches the store behind it, or after it and before the answer. From then on it never
//! answers again, as to a process that was killed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use berth_ledger::BlockKey;
use berth_ledger::store::{Change, Store, StoreError, Stored, Write, Written};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::watch;

/// Each writer has one of its own, over the store that all share.
#[derive(Debug)]
pub struct Mortal {
    store: Arc<dyn Store>,
    /// Steps until the end. Every write has three: before it, between its blocks, and after it.
    left: AtomicU64,
    /// Tells when the end has come.
    death: watch::Sender<bool>,
    /// How long each step takes: what others do meanwhile is what makes a writer's knowledge old.
    pauses: Mutex<StdRng>,
}

impl Mortal {
    pub fn new(store: Arc<dyn Store>, steps: u64, seed: u64) -> Self {
        Self {
            store,
            left: AtomicU64::new(steps),
            death: watch::Sender::new(false),
            pauses: Mutex::new(StdRng::seed_from_u64(seed)),
        }
    }

    pub fn death(&self) -> watch::Receiver<bool> {
        self.death.subscribe()
    }

    /// Returns after a while, or never.
    async fn step(&self) {
        let pauses = self.pauses.lock().unwrap().random_range(0..20);
        for _ in 0..pauses {
            tokio::task::yield_now().await;
        }
        let left = self
            .left
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| Some(left.saturating_sub(1)));
        if left == Ok(0) {
            // Nothing of ours is on its way to the store behind us: whatever was begun has ended.
            self.death.send_replace(true);
            std::future::pending::<()>().await;
        }
    }
}

impl Store for Mortal {
    fn is_shared(&self) -> bool {
        true
    }

    fn load<'a>(&'a self, subnet: &'a str) -> BoxFuture<'a, Result<Vec<Stored>, StoreError>> {
        self.store.load(subnet)
    }

    fn read<'a>(&'a self, key: &'a BlockKey) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        self.store.read(key)
    }

    fn write(&self, mut writes: Vec<Write>) -> BoxFuture<'_, Vec<Written>> {
        Box::pin(async move {
            self.step().await;
            let rest = writes.split_off(writes.len() / 2);
            let mut written = self.store.write(writes).await;
            self.step().await;
            written.extend(self.store.write(rest).await);
            self.step().await;
            written
        })
    }

    fn watch<'a>(&'a self, subnet: &'a str) -> BoxFuture<'a, Result<BoxStream<'static, Change>, StoreError>> {
        self.store.watch(subnet)
    }

    fn subnets(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        self.store.subnets()
    }
}
