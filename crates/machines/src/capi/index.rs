//! What the watches have reported.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_api::Subnet;
use berth_kit::watch::Key;
use berth_ledger::Owner;
use kube::ResourceExt;

use super::objects::{Address, Claim};
use crate::pool::Pool;

#[derive(Debug, Default)]
pub struct Index {
    pub claims: BTreeMap<Key, Arc<Claim>>,
    /// By their own name, which is their claim's.
    pub addresses: BTreeMap<Key, Arc<Address>>,
    pub pools: BTreeMap<String, Pool>,
    /// The Clusters that exist, and whether they are paused.
    pub clusters: BTreeMap<Key, bool>,
    /// By claim: owners that are gone, and may have a lease.
    pub departed: BTreeMap<Key, BTreeSet<Owner>>,
    claim_uids: BTreeSet<String>,
}

impl Index {
    pub fn apply_claim(&mut self, claim: Arc<Claim>) {
        let name = claim.name();
        if let Some(before) = self.claims.get(&name) {
            let uid = before.metadata.uid.clone().unwrap_or_default();
            self.claim_uids.remove(&uid);
        }
        self.claim_uids.extend(claim.metadata.uid.clone());
        self.claims.insert(name, claim);
    }

    pub fn delete_claim(&mut self, name: &Key, cluster: &str) {
        let Some(claim) = self.claims.remove(name) else {
            return;
        };
        let uid = claim.metadata.uid.clone().unwrap_or_default();
        self.claim_uids.remove(&uid);
        if let Ok(owner) = claim.owner(cluster)
            && claim.pool.is_some()
        {
            self.departed.entry(name.clone()).or_default().insert(owner);
        }
    }

    pub fn has_claim(&self, uid: &str) -> bool {
        self.claim_uids.contains(uid)
    }

    /// Returns whether anything has changed.
    pub fn apply_subnet(&mut self, subnet: &Subnet) -> bool {
        let pool = Pool::of(subnet);
        let before = self.pools.insert(subnet.name_any(), pool.clone());
        before.as_ref() != Some(&pool)
    }

    pub fn claims_of(&self, pool: &str) -> Vec<Key> {
        let of_pool = self
            .claims
            .iter()
            .filter(|(_, claim)| claim.pool.as_deref() == Some(pool));
        of_pool.map(|(name, _)| name.clone()).collect()
    }
}
