//! Claims what machines have before anything is leased: after a start, after a pool has grown, and
//! after the ledger has lost something.

use std::sync::Arc;

use berth_addr::Prefix;
use berth_ledger::{Claim, Claimed, Kind, Owner, Tenure};
use tracing::info;

use super::Context;
use super::decide::lease_of;
use crate::failure::ReconcileError;
use crate::machine::Machine;

/// An address that a machine has, but that another owner has in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    pub address: Prefix,
    pub owner: Owner,
}

impl Context {
    /// Claims what machines have in the pool, unless that was done since the pool last changed.
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
        // This comes first: a watch reports what comes later, which is recorded by itself.
        self.claimed.lock().insert(pool.to_owned());
        let machines = self.index.lock().by_age();
        let claimed = self.claim(pool, &machines).await;
        let opened = match &claimed {
            Ok(_) => self.ledger.open_gate(pool, &self.gate, generation).await,
            Err(_) => Ok(false),
        };
        if !matches!(opened, Ok(true)) {
            self.claimed.lock().remove(pool);
        }
        opened?;
        let conflicts = claimed?;
        info!(
            pool,
            machines = machines.len(),
            conflicts = conflicts.len(),
            "claimed the addresses that Machines have in the pool"
        );
        Ok(())
    }

    /// The lease was refused: something was lost.
    pub(super) fn mark_unclaimed(&self, pool: &str) {
        self.claimed.lock().remove(pool);
        self.recorded.lock().clear();
    }

    /// Claims all addresses of these machines that are in the pool. Returns those that others have.
    pub(super) async fn claim(
        &self,
        pool: &str,
        machines: &[Arc<Machine>],
    ) -> Result<Vec<Conflict>, ReconcileError> {
        let mut claims = Vec::new();
        for machine in machines {
            claims.extend(self.claims_of(pool, machine)?);
        }
        let outcomes = self.ledger.restore(pool, claims.clone()).await?;
        let (mut again, mut conflicts) = (Vec::new(), Vec::new());
        for (claim, outcome) in claims.into_iter().zip(outcomes) {
            let Claimed::Owned(tenure) = outcome else {
                continue;
            };
            if self.is_restored(&claim.owner, &tenure) {
                again.push(Claim {
                    from: Some(tenure.owner),
                    ..claim
                });
            } else {
                conflicts.push(Conflict {
                    address: claim.unit,
                    owner: tenure.owner,
                });
            }
        }
        let outcomes = self.ledger.restore(pool, again.clone()).await?;
        for (claim, outcome) in again.into_iter().zip(outcomes) {
            if let Claimed::Owned(tenure) = outcome {
                conflicts.push(Conflict {
                    address: claim.unit,
                    owner: tenure.owner,
                });
            }
        }
        Ok(conflicts)
    }

    fn claims_of(&self, pool: &str, machine: &Machine) -> Result<Vec<Claim>, ReconcileError> {
        let Ok(Some(network)) = &machine.network else {
            return Ok(Vec::new());
        };
        let owner = machine.owner(&self.cluster)?;
        let index = self.index.lock();
        let inside = network.addresses.iter().filter(|address| {
            let holding = index.pools.holding(address.ip);
            holding.is_some_and(|holding| holding.name == pool)
        });
        let claims = inside.map(|address| Claim {
            unit: address.ip.into(),
            owner: owner.clone(),
            lease: lease_of(&owner),
            from: None,
        });
        Ok(claims.collect())
    }

    /// Whether the Machine was restored from a backup: the same name, another UID, and nobody has
    /// the old one. Then the address is its own.
    fn is_restored(&self, owner: &Owner, tenure: &Tenure) -> bool {
        let had = &tenure.owner;
        had.kind() == Kind::Machine
            && had.gate() == owner.gate()
            && (had.namespace(), had.name()) == (owner.namespace(), owner.name())
            && self.index.lock().with_uid(had.uid()).is_none()
    }
}
