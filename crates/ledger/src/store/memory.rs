//! A store that ends with the process. Ledgers that share one are like ledgers on one etcd.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use parking_lot::{Mutex, MutexGuard};

use super::changes::Changes;
use super::{Change, Document, Store, StoreError, Stored, Version, Write, Written};
use crate::record::{BlockKey, Record};

/// Clones are the same store.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    changes: Changes,
}

#[derive(Debug, Default)]
struct State {
    blocks: BTreeMap<BlockKey, (Version, Arc<Record>)>,
    last_version: u64,
    plan: Option<(Version, Vec<u8>)>,
}

impl MemoryStore {
    /// Every change under this lock is complete, so a panic elsewhere does not matter.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// An independent copy of the store, like a copy of a file.
    pub fn copy(&self) -> Self {
        let state = self.state();
        Self {
            state: Arc::new(Mutex::new(State {
                blocks: state.blocks.clone(),
                last_version: state.last_version,
                plan: state.plan.clone(),
            })),
            changes: Changes::default(),
        }
    }

    fn write_one(&self, state: &mut State, write: Write) -> Written {
        let current = state.blocks.get(&write.key).map(|(version, _)| *version);
        if current != write.expected {
            return Written::Conflict;
        }
        state.last_version += 1;
        let version = Version(state.last_version);
        let record = write.record.filter(|record| !record.is_empty());
        // Changes are sent under the lock, so that they are in the order of versions.
        match record {
            Some(record) => {
                state.blocks.insert(write.key.clone(), (version, Arc::clone(&record)));
                let key = write.key;
                self.changes.tell(Change::Written(Stored { key, version, record }));
                Written::Done(Some(version))
            }
            None => {
                state.blocks.remove(&write.key);
                self.changes.tell(Change::Removed(write.key, version));
                Written::Done(None)
            }
        }
    }
}

impl Store for MemoryStore {
    fn is_shared(&self) -> bool {
        true
    }

    fn load<'a>(&'a self, subnet: &'a str) -> BoxFuture<'a, Result<Vec<Stored>, StoreError>> {
        let state = self.state();
        let of_subnet = state.blocks.iter().filter(|(key, _)| key.subnet == subnet);
        let blocks = of_subnet
            .map(|(key, (version, record))| stored(key, *version, record))
            .collect();
        Box::pin(async { Ok(blocks) })
    }

    fn read<'a>(&'a self, key: &'a BlockKey) -> BoxFuture<'a, Result<Option<Stored>, StoreError>> {
        let found = self.state().blocks.get(key).cloned();
        let found = found.map(|(version, record)| stored(key, version, &record));
        Box::pin(async { Ok(found) })
    }

    fn write(&self, writes: Vec<Write>) -> BoxFuture<'_, Vec<Written>> {
        let mut state = self.state();
        let written = writes
            .into_iter()
            .map(|write| self.write_one(&mut state, write))
            .collect();
        Box::pin(async { written })
    }

    fn watch<'a>(
        &'a self,
        subnet: &'a str,
    ) -> BoxFuture<'a, Result<BoxStream<'static, Change>, StoreError>> {
        let changes = self.changes.of(subnet);
        Box::pin(async { Ok(changes) })
    }

    fn read_plan(&self) -> BoxFuture<'_, Result<Option<Document>, StoreError>> {
        let plan = self.state().plan.clone();
        Box::pin(async { Ok(plan) })
    }

    fn swap_plan(
        &self,
        expected: Option<Version>,
        text: Vec<u8>,
    ) -> BoxFuture<'_, Result<bool, StoreError>> {
        let mut state = self.state();
        let is_expected = state.plan.as_ref().map(|(version, _)| *version) == expected;
        if is_expected {
            state.last_version += 1;
            state.plan = Some((Version(state.last_version), text));
        }
        Box::pin(async move { Ok(is_expected) })
    }

    fn subnets(&self) -> BoxFuture<'_, Result<Vec<String>, StoreError>> {
        let mut subnets: Vec<String> =
            self.state().blocks.keys().map(|key| key.subnet.clone()).collect();
        subnets.dedup();
        Box::pin(async { Ok(subnets) })
    }
}

fn stored(key: &BlockKey, version: Version, record: &Arc<Record>) -> Stored {
    Stored {
        key: key.clone(),
        version,
        record: Arc::clone(record),
    }
}
