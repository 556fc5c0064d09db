//! What the watches have told so far.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use berth_addr::{AddressSet, Plan, Prefix};
use berth_api::Subnet;
use berth_api::subnet::Use;
use berth_ledger::Owner;
use kube::ResourceExt;

use super::objects::{Address, Claim};
use crate::watch::Name;

/// A Subnet, as claims need to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    pub uid: String,
    /// As the ledger follows it.
    pub cidrs: Vec<Prefix>,
    pub space: AddressSet,
    gateways: Vec<IpAddr>,
    pub dns: Vec<IpAddr>,
    /// Why nothing can be had of it.
    pub unusable: Option<String>,
}

impl Pool {
    fn of(subnet: &Subnet) -> Self {
        let addresses = |texts: &[String]| texts.iter().filter_map(|text| text.parse().ok()).collect();
        let status = subnet.status.as_ref();
        let followed = status.map(|status| status.cidrs.as_slice()).unwrap_or_default();
        let plan = Plan {
            cidrs: followed.iter().filter_map(|cidr| cidr.parse().ok()).collect(),
            ranges: subnet
                .spec
                .ranges
                .iter()
                .filter_map(|range| range.parse().ok())
                .collect(),
            shares_cidrs: true,
            ..Plan::default()
        };
        let serving = status.is_some_and(|status| status.capacity.is_some());
        let conditions = || status.into_iter().flat_map(|status| &status.conditions);
        let overlapping = conditions().any(|found| found.type_ == "Overlapping" && found.status == "True");
        let name = subnet.name_any();
        let unusable = if subnet.spec.usage != Use::Machines {
            Some(format!(
                "Subnet {name} is not for machines: name one whose use is machines"
            ))
        } else if subnet.metadata.deletion_timestamp.is_some() {
            Some(format!("Subnet {name} is being deleted"))
        } else if !serving || overlapping {
            Some(format!("Subnet {name} is not ready: see its conditions"))
        } else {
            None
        };
        Self {
            uid: subnet.uid().unwrap_or_default(),
            space: plan.space().unwrap_or_default(),
            cidrs: plan.cidrs,
            gateways: addresses(&subnet.spec.gateways),
            dns: addresses(&subnet.spec.dns),
            unusable,
        }
    }

    pub fn cidr_around(&self, address: IpAddr) -> Option<Prefix> {
        self.cidrs.iter().copied().find(|cidr| cidr.contains(address))
    }

    /// One inside of the CIDR before one outside.
    pub fn gateway_for(&self, address: IpAddr) -> Option<IpAddr> {
        let mut of_family = self
            .gateways
            .iter()
            .copied()
            .filter(|gateway| gateway.is_ipv4() == address.is_ipv4());
        let cidr = self.cidr_around(address);
        let inside = of_family
            .clone()
            .find(|gateway| cidr.is_some_and(|cidr| cidr.contains(*gateway)));
        inside.or_else(|| of_family.next())
    }
}

#[derive(Debug, Default)]
pub struct Index {
    pub claims: BTreeMap<Name, Arc<Claim>>,
    /// By their own name, which is their claim's.
    pub addresses: BTreeMap<Name, Arc<Address>>,
    pub pools: BTreeMap<String, Pool>,
    /// Those that are there, and whether they are paused.
    pub clusters: BTreeMap<Name, bool>,
    /// By claim: those that have gone, and may have a lease.
    pub departed: BTreeMap<Name, BTreeSet<Owner>>,
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

    pub fn delete_claim(&mut self, name: &Name, cluster: &str) {
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

    /// Whether anything is other than before.
    pub fn apply_subnet(&mut self, subnet: &Subnet) -> bool {
        let pool = Pool::of(subnet);
        let before = self.pools.insert(subnet.name_any(), pool.clone());
        before.as_ref() != Some(&pool)
    }

    pub fn claims_of(&self, pool: &str) -> Vec<Name> {
        let of_pool = self
            .claims
            .iter()
            .filter(|(_, claim)| claim.pool.as_deref() == Some(pool));
        of_pool.map(|(name, _)| name.clone()).collect()
    }
}
