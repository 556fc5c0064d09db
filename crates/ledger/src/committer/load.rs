//! From the store to the book: at the beginning, when others write, and when it is not known what
//! was missed.

use std::sync::Arc;

use tokio::time::Instant;
use tracing::warn;

use super::{Committer, RETRY_INTERVAL};
use crate::book::Misfit;
use crate::record::BlockKey;
use crate::store::{Change, StoreError, Stored};

impl Committer {
    /// Everything from the store. Watched first and loaded then, so that no change falls between.
    /// Gives what is owned and not in the plan.
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
        self.again = None;
        Ok(misfits)
    }

    /// The same while the subnet is in use. Another process may be ahead with a plan that has more:
    /// what is owned there is not ours to give. But a block that lies across ours says that units
    /// of ours are owned, and not which block of ours they would be in.
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

    pub(super) async fn follow(&mut self, change: Option<Change>) {
        match change {
            Some(Change::Written(stored)) if self.book.knows(&stored.key) => {
                self.take_over(&stored)
            }
            Some(Change::Written(stored)) => self.look_up(&stored.key).await,
            Some(Change::Removed(key, version)) => self.book.follow_removal(&key, version),
            Some(Change::Lost) | None => {
                self.changes = None;
                self.stale = true;
            }
        }
    }

    /// What is told comes late, later still from a member of etcd that was away. Of a block that is
    /// not known it may be older than the end of that block, which is known: its owners would be
    /// back until that is told, too. So what the store has now counts.
    async fn look_up(&mut self, key: &BlockKey) {
        let store = Arc::clone(&self.store);
        match self.wait_for(store.read(key)).await {
            Ok(Some(stored)) => self.take_over(&stored),
            Ok(None) => {}
            Err(error) => {
                warn!(subnet = self.subnet, %error, "a new block can't be read");
                self.stale = true;
            }
        }
    }

    fn take_over(&mut self, stored: &Stored) {
        if let Err(misfit) = self.book.follow(stored, self.clock.now()) {
            self.stale |= self.book.crosses(&misfit);
        }
    }

    /// At once for the first time, and then less and less often: what keeps it from being loaded
    /// may need a person.
    pub(super) async fn recovers(&mut self) -> bool {
        if self.again.is_some_and(|again| again > Instant::now()) {
            return false;
        }
        if self.reload().await.is_ok() {
            return true;
        }
        let pause = RETRY_INTERVAL.saturating_mul(1 << self.failures.min(7));
        self.failures = self.failures.saturating_add(1);
        self.again = Instant::now().checked_add(pause);
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
