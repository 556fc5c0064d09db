//! The worker: takes all claims that wait, and brings each as far as it goes.

use std::sync::Arc;

use berth_kit::watch::Key;
use berth_kit::work::work;
use tracing::debug;

use super::Context;
use super::decide::{ALLOCATION_FAILED, POOL_EXHAUSTED, Step, step};
use super::objects::{Address, Claim};
use super::status::Verdict;
use crate::failure::ReconcileError;
use crate::pool::{in_ledger, release_all};

/// Claims under way at a time, each on a connection to the API server with buffers of its own.
const CONCURRENCY: usize = 32;

impl Context {
    pub(super) async fn work(&self) {
        let context = self.clone();
        let reconcile = move |name: Key| {
            let context = context.clone();
            async move { context.reconcile(&name).await }
        };
        work(self.queue.clone(), CONCURRENCY, reconcile).await;
    }

    async fn reconcile(&self, name: &Key) -> Result<(), ReconcileError> {
        let next = step(name, &self.index.lock(), self.served.clusters.is_some());
        match next {
            Step::Nothing => Ok(()),
            Step::Release => self.release(name).await,
            Step::Remove(address) => {
                // Claims and addresses have separate watches: the address may be known first, as
                // when both are moved here.
                if self.has_claim(&address).await? {
                    let object = format!("IPAddressClaim {name}");
                    return Err(ReconcileError::Contended { object });
                }
                // The watch reports when it is gone, and then its lease ends.
                self.mark_departed(name, &address)?;
                self.remove(&address).await
            }
            Step::Keep(claim, address) => self.keep(&claim, &address).await,
            Step::Allocate(claim) => self.allocate_address(name, &claim).await,
            Step::Refuse(claim, reason, why) => {
                self.waiting.insert(name.clone());
                self.refuse(&claim, reason, why).await
            }
        }
    }

    /// Marks what the claim had to come back, also if nobody observed that the claim went.
    fn mark_departed(&self, name: &Key, address: &Address) -> Result<(), ReconcileError> {
        let owner = address.owner(&self.cluster, None)?;
        self.index
            .lock()
            .departed
            .entry(name.clone())
            .or_default()
            .insert(owner);
        Ok(())
    }

    async fn allocate_address(&self, name: &Key, claim: &Arc<Claim>) -> Result<(), ReconcileError> {
        // First releases what an earlier claim of this name had.
        self.release(name).await?;
        let pool_name = claim.pool.clone().unwrap_or_default();
        let Some(pool) = self.index.lock().pools.get(&pool_name).cloned() else {
            return Ok(());
        };
        // This comes before the request: an address that comes free meanwhile wakes the claim.
        self.waiting.insert(name.clone());
        let ip = match self.allocate(claim, &pool_name, &pool).await? {
            Ok(ip) => ip,
            Err((reason, why)) => {
                if reason == POOL_EXHAUSTED {
                    self.metrics.full.inc();
                }
                return self.refuse(claim, reason, why).await;
            }
        };
        let address = self.create(claim, &pool_name, &pool, ip).await?;
        self.index.lock().addresses.insert(name.clone(), Arc::new(address));
        self.waiting.remove(name);
        self.metrics.allocations.inc();
        debug!(claim = ?name, %ip, "allocated an address to the IPAddressClaim");
        self.ready(claim).await
    }

    async fn keep(&self, claim: &Arc<Claim>, address: &Arc<Address>) -> Result<(), ReconcileError> {
        let pool = claim.pool.clone().unwrap_or_default();
        let known = self.index.lock().pools.contains_key(&pool);
        if address.is_deleting() {
            // Somebody deleted the IPAddress of an existing claim: it stays, as the claim does.
            return Ok(());
        }
        if known {
            let conflicts = self.claim(&pool, std::slice::from_ref(address)).await?;
            if let Some((address, owner)) = conflicts.first() {
                let ip = address.ip.map(|ip| ip.to_string()).unwrap_or_default();
                let why =
                    format!("IPAddress has {ip}, which is owned by {owner}: delete one of the two");
                return self.refuse(claim, ALLOCATION_FAILED, why).await;
            }
        }
        if !address.is_protected() {
            self.protect(address).await?;
        }
        self.waiting.remove(&claim.name());
        self.ready(claim).await
    }

    async fn ready(&self, claim: &Claim) -> Result<(), ReconcileError> {
        let Key { name, .. } = claim.name();
        let verdict = Verdict {
            ready: true,
            reason: "Allocated",
            message: String::new(),
            address: Some(name),
        };
        self.write_status(claim, &verdict).await
    }

    async fn refuse(
        &self,
        claim: &Claim,
        reason: &'static str,
        why: String,
    ) -> Result<(), ReconcileError> {
        self.background
            .warn(&self.reference(claim), reason, "Allocate", why.clone());
        let verdict = Verdict {
            ready: false,
            reason,
            message: why,
            address: None,
        };
        self.write_status(claim, &verdict).await
    }

    /// Releases what earlier claims of that name have. Their IPAddress is gone, so nobody uses it.
    async fn release(&self, name: &Key) -> Result<(), ReconcileError> {
        let owners = self.index.lock().departed.get(name).cloned().unwrap_or_default();
        if owners.is_empty() {
            return Ok(());
        }
        // No watch shows the IPAddress, but a watch may be late.
        if self.has_address(name).await? {
            let object = format!("IPAddress {name}");
            return Err(ReconcileError::Contended { object });
        }
        for owner in owners {
            let pools = in_ledger(self.index.lock().pools.values());
            release_all(&self.ledger, &owner, pools).await?;
            let mut index = self.index.lock();
            if let Some(departed) = index.departed.get_mut(name) {
                departed.remove(&owner);
                if departed.is_empty() {
                    index.departed.remove(name);
                }
            }
        }
        Ok(())
    }
}
