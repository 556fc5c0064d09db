//! The central promise, on the stores of this process: whoever writes and whenever it dies, no unit
//! has two owners and nothing that was answered is lost.

mod faults;
mod run;

use std::sync::Arc;

use berth_ledger::store::{MemoryStore, RedbStore};
use run::{Amount, Run};

const AMOUNT: Amount = Amount {
    crashes: 1_000,
    steps: 20,
    waits: true,
};

/// On a stopped clock and one thread: the same seed is the same run.
#[tokio::test(start_paused = true)]
async fn ten_thousand_deaths_on_memory() {
    for seed in 0..10 {
        let store = Arc::new(MemoryStore::default());
        let mut run = Run::new(seed, AMOUNT);
        while !run.is_over() {
            run.round(store.clone()).await;
        }
    }
}

/// In memory if the machine has such a directory: a process that dies leaves what it wrote, synced
/// or not. The file is opened again after each round, by a runtime of its own: with it goes all
/// that hangs on the round before.
#[test]
fn ten_thousand_deaths_on_redb() {
    for seed in 0..10 {
        let directory = tempfile::tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .unwrap();
        let path = directory.path().join("ledger.redb");
        let mut run = Run::new(seed, AMOUNT);
        while !run.is_over() {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().start_paused(true).build().unwrap();
            runtime.block_on(async {
                let store = RedbStore::open(&path).unwrap();
                run.round(Arc::new(store)).await;
            });
        }
    }
}
