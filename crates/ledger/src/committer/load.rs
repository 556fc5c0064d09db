//! Loads the store into the book: at the start, when others write, and when changes may have been
//! missed.

use std::sync::Arc;

use tokio::time::Instant;
use tracing::warn;

use super::{Committer, RETRY_INTERVAL};
use crate::book::Misfit;
use crate::record::BlockKey;
use crate::store::{Change, StoreError, Stored};

impl Committer {
    /// Loads everything from the store. It watches first and then loads, so that no change is
    /// missed. Returns the owned blocks that do not fit the plan.
    pub(super) async fn load(&mut self) -> Result<Vec<Misfit>, StoreError> {
        self.stale = true;
        let (store, subnet) = (Arc::clone(&self.store), self.subnet.clone());
        self.changes = if store.is_shared() {
            Some(self.wait_for(store.watch(&subnet)).await?)
        } else {
            None
        };
        let blocks = self.wait_for(store.load(&subnet)).await?;
        let before = self.book.before();
        self.book.clear();
        let now = self.clock.now();
        let misfits = blocks.iter().filter_map(|stored| self.book.load(stored, now).err());
        let misfits: Vec<Misfit> = misfits.filter(Misfit::has_owners).collect();
        self.book.compare(&before);
        self.note_losses(&[]);
        self.stale = false;
        self.retry_at = None;
        Ok(misfits)
    }

    /// Loads again while the subnet is in use. Another process may already have a larger plan:
    /// owned units outside our plan do not matter here. But a misfit block that overlaps our CIDRs
    /// has owned units of ours, and no place in our blocks.
    pub(super) async fn reload(&mut self) -> Result<(), StoreError> {
        let misfits = self.load().await?;
        match misfits.into_iter().find(|misfit| self.book.crosses(misfit)) {
            None => {
                self.failures = 0;
                Ok(())
            }
            Some(misfit) => {
                self.stale = true;
                let unit = misfit.in_use().unit;
                let why = format!(
                    "subnet {}: {unit} is owned in a block that the cidrs do not have: \
                     nothing is given until they are as they were then",
                    self.subnet
                );
                Err(StoreError::new("ledger", why))
            }
        }
    }

    pub(super) async fn apply_change(&mut self, change: Option<Change>) {
        match change {
            Some(Change::Written(stored)) if self.book.knows(&stored.key) => {
                self.apply_stored(&stored)
            }
            Some(Change::Written(stored)) => self.look_up(&stored.key).await,
            Some(Change::Removed(key, version)) => self.book.apply_removal(&key, version),
            Some(Change::Lost) | None => {
                self.changes = None;
                self.stale = true;
            }
        }
    }

    /// Watch events come late, later still from an etcd member that was away. The event of an
    /// unknown block may be older than that block's removal, which was already applied: its owners
    /// would be back until the watch repeats the removal. So this reads the block as the store has
    /// it now.
    async fn look_up(&mut self, key: &BlockKey) {
        let store = Arc::clone(&self.store);
        match self.wait_for(store.read(key)).await {
            Ok(Some(stored)) => self.apply_stored(&stored),
            Ok(None) => {}
            Err(error) => {
                warn!(subnet = self.subnet, %error, "cannot read a new block from the store; \
                                                     reloading the subnet's blocks");
                self.stale = true;
            }
        }
    }

    fn apply_stored(&mut self, stored: &Stored) {
        if let Err(misfit) = self.book.apply(stored, self.clock.now()) {
            self.stale |= self.book.crosses(&misfit);
        }
    }

    /// Loads again at once, and then less and less often: the cause of a failure may need a person.
    pub(super) async fn try_to_recover(&mut self) -> bool {
        if self.retry_at.is_some_and(|retry_at| retry_at > Instant::now()) {
            return false;
        }
        if self.reload().await.is_ok() {
            return true;
        }
        let pause = RETRY_INTERVAL.saturating_mul(1 << self.failures.min(7));
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Instant::now().checked_add(pause);
        false
    }

    pub(super) async fn reload_with_retries(&mut self) -> Result<(), StoreError> {
        let mut last = self.reload().await;
        for _ in 0..3 {
            if last.is_ok() {
                return last;
            }
            self.wait_for(tokio::time::sleep(RETRY_INTERVAL)).await;
            last = self.reload().await;
        }
        last
    }
}
