//! A store that stops at a chosen step: before a write reaches the store behind it, or after it and
//! before the answer. From then on it never answers again, as to a process that was killed. Until
//! then it fails now and then, as stores do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use berth_ledger::BlockKey;
use berth_ledger::store::{Change, Document, Store, StoreError, Stored, Version, Write, Written};
use futures::future::BoxFuture;
use futures::stream::{BoxStream, StreamExt};
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
    /// How long each step takes, as what others do meanwhile is what makes a writer's knowledge
    /// old; and what fails.
    chance: Arc<Mutex<StdRng>>,
}

/// How often a write, a read or a watch fails.
const FAULTS: f64 = 0.02;

impl Mortal {
    pub fn new(store: Arc<dyn Store>, steps: u64, seed: u64) -> Self {
        Self {
            store,
            left: AtomicU64::new(steps),
            death: watch::Sender::new(false),
            chance: Arc::new(Mutex::new(StdRng::seed_from_u64(seed))),
        }
    }

    pub fn death(&self) -> watch::Receiver<bool> {
        self.death.subscribe()
    }

    /// Returns after a while, or never.
    async fn step(&self) {
        let pauses = self.chance.lock().unwrap().random_range(0..20);
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

    fn fails(&self) -> bool {
        self.chance.lock().unwrap().random_bool(FAULTS)
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
        if self.fails() {
            return Box::pin(async { Err(StoreError::new("mortal", "did not answer")) });
        }
        self.store.read(key)
    }

    fn write(&self, mut writes: Vec<Write>) -> BoxFuture<'_, Vec<Written>> {
        Box::pin(async move {
            self.step().await;
            let count = writes.len();
            // Nothing arrives.
            if self.fails() {
                return vec![Written::Unknown; count];
            }
            let rest = writes.split_off(count / 2);
            let mut written = self.store.write(writes).await;
            self.step().await;
            written.extend(self.store.write(rest).await);
            self.step().await;
            // All has arrived, and the answer gets lost.
            if self.fails() {
                return vec![Written::Unknown; count];
            }
            written
        })
    }

    fn watch<'a>(
        &'a self,
        subnet: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Change>, StoreError>> {
        let chance = Arc::clone(&self.chance);
        Box::pin(async move {
            let changes = self.store.watch(subnet).await?;
            let lossy = changes.map(move |change| {
                let lost = chance.lock().unwrap().random_bool(FAULTS);
                if lost { Change::Lost } else { change }
            });
            Ok(lossy.boxed())
        })
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
