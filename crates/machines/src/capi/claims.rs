//! Claims what IPAddress objects have before anything is leased: after a start, after a pool
//! changed, after the ledger lost something, and whenever an IPAddress comes from elsewhere.

use std::sync::Arc;

use berth_kit::watch::Key;
use berth_ledger::{Claim as Restored, Claimed, Owner};
use tracing::info;

use super::Context;
use super::allocate::lease_of;
use super::objects::Address;
use crate::failure::ReconcileError;

impl Context {
    pub(super) async fn ensure_claimed(&self, pool: &str) -> Result<(), ReconcileError> {
        if self.claimed.lock().contains(pool) {
            return Ok(());
        }
        let _one = self.claiming.lock().await;
        while !self.claimed.lock().contains(pool) {
            self.claim_all(pool).await?;
        }
        Ok(())
    }

    async fn claim_all(&self, pool: &str) -> Result<(), ReconcileError> {
        let generation = self.ledger.gate(pool, &self.gate).await?;
        // This comes first: a watch reports what comes later, which is claimed by itself.
        self.claimed.lock().insert(pool.to_owned());
        let addresses: Vec<Arc<Address>> = {
            let index = self.index.lock();
            let of_pool = index
                .addresses
                .values()
                .filter(|address| address.pool.as_deref() == Some(pool));
            of_pool.cloned().collect()
        };
        let claimed = self.claim(pool, &addresses).await;
        let opened = match &claimed {
            Ok(_) => self.ledger.open_gate(pool, &self.gate, generation).await,
            Err(_) => Ok(false),
        };
        if !matches!(opened, Ok(true)) {
            self.claimed.lock().remove(pool);
        }
        opened?;
        let conflicts = claimed?.len();
        info!(
            pool,
            addresses = addresses.len(),
            conflicts,
            "claimed the addresses of IPAddress objects"
        );
        Ok(())
    }

    pub(super) fn mark_unclaimed(&self, pool: &str) {
        self.claimed.lock().remove(pool);
    }

    /// Returns the addresses that somebody else has, and who.
    pub(super) async fn claim(
        &self,
        pool: &str,
        addresses: &[Arc<Address>],
    ) -> Result<Vec<(Arc<Address>, Owner)>, ReconcileError> {
        let mut claims = Vec::new();
        for address in addresses {
            let Some(ip) = address.ip else {
                continue;
            };
            let claim = {
                let of_claim = Key {
                    name: address.claim.clone(),
                    ..address.name()
                };
                self.index.lock().claims.get(&of_claim).cloned()
            };
            let owner = address.owner(&self.cluster, claim.as_deref())?;
            let restored = Restored {
                unit: ip.into(),
                lease: lease_of(&owner),
                owner,
                from: None,
            };
            claims.push((Arc::clone(address), restored));
        }
        let asked = claims.iter().map(|(_, claim)| claim.clone()).collect();
        let outcomes = self.ledger.restore(pool, asked).await?;
        let mut conflicts = Vec::new();
        for ((address, claim), outcome) in claims.into_iter().zip(outcomes) {
            let Claimed::Owned(tenure) = outcome else {
                continue;
            };
            // The owner is an earlier UID of the same claim, which was moved away and back, or
            // restored.
            let had = &tenure.owner;
            let same_name =
                (had.namespace(), had.name()) == (claim.owner.namespace(), claim.owner.name());
            let same =
                had.kind() == claim.owner.kind() && same_name && had.gate() == claim.owner.gate();
            if same && !self.index.lock().has_claim(had.uid()) {
                let moved = Restored {
                    from: Some(tenure.owner.clone()),
                    ..claim
                };
                self.ledger.restore(pool, vec![moved]).await?;
            } else {
                conflicts.push((address, tenure.owner));
            }
        }
        Ok(conflicts)
    }
}
