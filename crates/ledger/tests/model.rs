//! The central promise, on the stores of this process: whoever writes and whenever it dies, no unit has two owners and nothing that was
//! answered is lost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "model/faults.rs"]
mod faults;
#[path = "model/run.rs"]
mod run;

use std::sync::Arc;

use berth_ledger::store::{MemoryStore, RedbStore};
use run::Amount;

const AMOUNT: Amount = Amount {
    crashes: 1_000,
    steps: 20,
};

/// On a stopped clock and one thread: the same seed is the same run.
#[tokio::test(start_paused = true)]
async fn ten_thousand_deaths_on_memory() {
    for seed in 0..10 {
        let store = Arc::new(MemoryStore::default());
        run::run(store, seed, AMOUNT).await;
    }
}

/// In memory if the machine has such a folder: a process that dies leaves what it wrote, synced or not.
#[tokio::test]
async fn ten_thousand_deaths_on_redb() {
    for seed in 0..10 {
        let folder = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let store = RedbStore::open(&folder.path().join("ledger.redb")).unwrap();
        run::run(Arc::new(store), seed, AMOUNT).await;
    }
}
