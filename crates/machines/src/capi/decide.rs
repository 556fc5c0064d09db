//! What must be done for a claim, from what is known of it and of its IPAddress. Pure.

use std::sync::Arc;

use berth_kit::watch::Key;

use super::index::Index;
use super::objects::{Address, Claim};

#[derive(Clone, Debug)]
pub enum Step {
    Nothing,
    /// Neither claim nor IPAddress exists: what earlier claims of that name have comes back.
    Release,
    /// The IPAddress's claim is gone, or is another one by now.
    Remove(Arc<Address>),
    /// The claim has its address: the ledger must have it, and the claim must say so.
    Keep(Arc<Claim>, Arc<Address>),
    Allocate(Arc<Claim>),
    /// The claim can't be served at present.
    Refuse(Arc<Claim>, &'static str, String),
}

/// The reasons that the contract defines.
pub const ALLOCATION_FAILED: &str = "AllocationFailed";
pub const POOL_NOT_READY: &str = "PoolNotReady";
pub const POOL_EXHAUSTED: &str = "PoolExhausted";

pub fn step(name: &Key, index: &Index, has_clusters: bool) -> Step {
    let address = index.addresses.get(name).filter(|address| address.pool.is_some());
    let Some(claim) = index.claims.get(name) else {
        return match address {
            Some(address) => Step::Remove(Arc::clone(address)),
            None => Step::Release,
        };
    };
    let Some(pool) = &claim.pool else {
        return Step::Nothing;
    };
    if let Some(address) = address {
        let uid = claim.metadata.uid.as_deref();
        // The IPAddress is of an earlier claim of this name. An IPAddress that names no claim was
        // created by a person, or moved here: it is the claim's by its name.
        if address.claim_uid().is_some_and(|of| Some(of) != uid)
            && !index.has_claim(address.claim_uid().unwrap_or_default())
        {
            return Step::Remove(Arc::clone(address));
        }
        if waits(claim, index, has_clusters) || claim.is_deleting() {
            return Step::Nothing;
        }
        return Step::Keep(Arc::clone(claim), Arc::clone(address));
    }
    // Other finalizers still hold the claim: it needs no address any more, and what it has stays
    // until it is gone.
    if claim.is_deleting() || waits(claim, index, has_clusters) {
        return Step::Nothing;
    }
    match index.pools.get(pool) {
        None => {
            let why = format!(
                "spec.poolRef.name: there is no Subnet {pool}: create it, or name another one"
            );
            Step::Refuse(Arc::clone(claim), POOL_NOT_READY, why)
        }
        Some(found) => match found.why_unusable() {
            Some(why) => Step::Refuse(Arc::clone(claim), POOL_NOT_READY, why),
            None => Step::Allocate(Arc::clone(claim)),
        },
    }
}

/// Whether the claim or its Cluster is paused, or its Cluster does not exist (yet).
fn waits(claim: &Claim, index: &Index, has_clusters: bool) -> bool {
    if claim.is_paused() {
        return true;
    }
    let Some(cluster) = claim.cluster_name().filter(|_| has_clusters) else {
        return false;
    };
    let of_cluster = Key {
        name: cluster.to_owned(),
        ..claim.name()
    };
    index.clusters.get(&of_cluster).copied().unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn claim(metadata: Value, spec: Value) -> Arc<Claim> {
        let mut metadata = metadata;
        metadata["name"] = "c".into();
        metadata["namespace"] = "ns".into();
        if metadata["uid"].is_null() {
            metadata["uid"] = "u1".into();
        }
        let mut spec = spec;
        spec["poolRef"] = json!({"apiGroup": "berth.dev", "kind": "Subnet", "name": "pool"});
        let object = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
        Arc::new(Claim::of(&object))
    }

    fn address(uid: &str) -> Arc<Address> {
        let owners =
            json!([{"apiVersion": "x", "kind": "IPAddressClaim", "name": "c", "uid": uid}]);
        let object = json!({
            "metadata": {"name": "c", "namespace": "ns", "ownerReferences": owners},
            "spec": {
                "address": "10.0.0.5", "claimRef": {"name": "c"},
                "poolRef": {"apiGroup": "berth.dev", "kind": "Subnet", "name": "pool"},
            },
        });
        Arc::new(Address::of(&serde_json::from_value(object).unwrap()))
    }

    fn name() -> Key {
        Key {
            namespace: "ns".to_owned(),
            name: "c".to_owned(),
        }
    }

    fn index(claim: Option<Arc<Claim>>, address: Option<Arc<Address>>) -> Index {
        let mut index = Index::default();
        claim.into_iter().for_each(|claim| index.apply_claim(claim));
        index.addresses.extend(address.map(|address| (name(), address)));
        let subnet = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Subnet", "metadata": {"name": "pool"},
            "spec": {"use": "machines", "cidrs": ["10.0.0.0/24"]},
            "status": {"cidrs": ["10.0.0.0/24"], "capacity": 254},
        });
        index.apply_subnet(&serde_json::from_value(subnet).unwrap());
        index
    }

    fn word(index: &Index) -> &'static str {
        match step(&name(), index, true) {
            Step::Nothing => "nothing",
            Step::Release => "release",
            Step::Remove(_) => "remove",
            Step::Keep(..) => "keep",
            Step::Allocate(_) => "allocate",
            Step::Refuse(_, reason, _) => reason,
        }
    }

    #[test]
    fn a_claim_is_given_an_address_and_keeps_it_until_it_is_gone() {
        let plain = || claim(json!({}), json!({}));
        assert_eq!(word(&index(Some(plain()), None)), "allocate");
        assert_eq!(word(&index(Some(plain()), Some(address("u1")))), "keep");
        let deleting = claim(
            json!({"deletionTimestamp": "2026-11-16T00:00:00Z", "finalizers": ["x"]}),
            json!({}),
        );
        assert_eq!(word(&index(Some(deleting), Some(address("u1")))), "nothing");
        assert_eq!(word(&index(None, Some(address("u1")))), "remove");
        assert_eq!(word(&index(None, None)), "release");
    }

    #[test]
    fn the_address_of_an_earlier_claim_of_the_same_name_goes_first() {
        let again = claim(json!({"uid": "u2"}), json!({}));
        assert_eq!(word(&index(Some(again), Some(address("u1")))), "remove");
    }

    #[test]
    fn a_claim_waits_while_it_is_paused_or_without_its_cluster() {
        let paused = claim(json!({"annotations": {"cluster.x-k8s.io/paused": ""}}), json!({}));
        assert_eq!(word(&index(Some(paused), None)), "nothing");
        let of_cluster = || claim(json!({}), json!({"clusterName": "blue"}));
        let mut without = index(Some(of_cluster()), None);
        assert_eq!(word(&without), "nothing");
        without.clusters.insert(
            Key {
                namespace: "ns".to_owned(),
                name: "blue".to_owned(),
            },
            true,
        );
        assert_eq!(word(&without), "nothing");
        without.clusters.insert(
            Key {
                namespace: "ns".to_owned(),
                name: "blue".to_owned(),
            },
            false,
        );
        assert_eq!(word(&without), "allocate");
        // Gone, its Cluster too: nothing holds up its IPAddress.
        assert_eq!(word(&index(None, Some(address("u1")))), "remove");
    }

    #[test]
    fn a_pool_that_is_not_there_or_not_for_machines_is_not_ready() {
        let mut without = index(Some(claim(json!({}), json!({}))), None);
        without.pools.clear();
        assert_eq!(word(&without), POOL_NOT_READY);
        let subnet = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Subnet", "metadata": {"name": "pool"},
            "spec": {"use": "pods", "cidrs": ["10.0.0.0/24"]}, "status": {"capacity": 1},
        });
        without.apply_subnet(&serde_json::from_value(subnet).unwrap());
        assert_eq!(word(&without), POOL_NOT_READY);
    }
}
