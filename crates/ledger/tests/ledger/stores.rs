//! The promises of the stores that need no server. The others are in `ledger_real`.

pub mod crds;
#[macro_use]
mod promises;
mod records;

mod embedded;

mod memory {
    use std::sync::Arc;

    use berth_ledger::store::MemoryStore;

    use super::promises::{Pair, subnet_of};

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

    use super::promises::{Pair, subnet_of};

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
