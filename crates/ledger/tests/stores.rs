//! The promises of the stores that need no server. The others are in `stores_real.rs`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "stores/crds.rs"]
mod crds;
#[macro_use]
#[path = "stores/promises.rs"]
mod promises;
#[path = "stores/records.rs"]
mod records;

#[path = "stores/embedded.rs"]
mod embedded;

mod memory {
    use std::sync::Arc;

    use berth_ledger::store::MemoryStore;

    use crate::promises::{Pair, subnet_of};

    async fn open(promise: &str) -> Pair {
        let store = MemoryStore::default();
        Pair {
            one: Arc::new(store.clone()),
            other: Arc::new(store),
            subnet: subnet_of(promise),
        }
    }

    every_promise!(open);
}

mod redb {
    use std::sync::Arc;

    use berth_ledger::store::{RedbStore, Store};
    use tempfile::TempDir;

    use crate::promises::{Pair, subnet_of};

    async fn open(promise: &str) -> Pair {
        // The file loses its name at the end of this function, and lives as long as it is open.
        let directory = TempDir::new().unwrap();
        let store: Arc<dyn Store> =
            Arc::new(RedbStore::open(&directory.path().join("ledger.redb")).unwrap());
        Pair {
            one: Arc::clone(&store),
            other: store,
            subnet: subnet_of(promise),
        }
    }

    every_promise!(open);
}
