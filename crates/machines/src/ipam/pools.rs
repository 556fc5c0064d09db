//! The Subnets that machines draw on, in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use berth_addr::Family;
use berth_api::Subnet;
use berth_api::machines::flag::NETWORK_LABEL;
use kube::ResourceExt;

use crate::pool::{Pool, in_ledger};

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Pools {
    by_name: BTreeMap<String, Ranked>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Ranked {
    order: u32,
    pool: Pool,
}

impl Pools {
    /// Returns whether anything has changed.
    pub fn apply(&mut self, subnet: &Subnet) -> bool {
        let pool = Pool::of(subnet);
        let Some(order) = subnet.labels().get(NETWORK_LABEL).filter(|_| pool.is_for_machines)
        else {
            return self.delete(&pool.name);
        };
        let order = order.parse().unwrap_or(u32::MAX);
        let ranked = Ranked { order, pool };
        let before = self.by_name.insert(ranked.pool.name.clone(), ranked.clone());
        before.as_ref() != Some(&ranked)
    }

    /// Whether all pools are decided on, and those of these names exist. Until then it is not known
    /// which pool is the first with an address, nor of which families a machine gets one.
    pub fn are_decided(&self, names: &[String]) -> bool {
        let known = |name: &String| self.by_name.contains_key(name);
        names.iter().all(known) && self.by_name.values().all(|ranked| ranked.pool.is_decided)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    pub fn delete(&mut self, name: &str) -> bool {
        self.by_name.remove(name).is_some()
    }

    /// The pools in the order in which they are tried.
    pub fn in_order(&self) -> Vec<&Pool> {
        let mut pools: Vec<&Ranked> = self.by_name.values().collect();
        pools.sort_by_key(|ranked| (ranked.order, &ranked.pool.name));
        pools.into_iter().map(|ranked| &ranked.pool).collect()
    }

    /// The families that a machine gets an address of.
    pub fn families(&self) -> BTreeSet<Family> {
        let has = |family: &Family| self.by_name.values().any(|ranked| ranked.pool.has(*family));
        Family::ALL.into_iter().filter(has).collect()
    }

    /// The pools that the ledger must know before a machine counts as one without an address.
    pub fn in_ledger(&self) -> Vec<String> {
        in_ledger(self.by_name.values().map(|ranked| &ranked.pool))
    }

    pub fn holding(&self, address: IpAddr) -> Option<&Pool> {
        self.in_order().into_iter().find(|pool| pool.contains(address))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn subnet(name: &str, order: &str, spec: serde_json::Value, cidrs: &[&str]) -> Subnet {
        let mut subnet = crate::pool::tests::subnet(name, spec, cidrs);
        let labels = subnet.metadata.labels.get_or_insert_default();
        labels.insert(NETWORK_LABEL.to_owned(), order.to_owned());
        subnet
    }

    #[test]
    fn pools_are_tried_by_their_number_and_not_by_its_text() {
        let mut pools = Pools::default();
        for (name, order) in [("a", "10"), ("b", "9"), ("c", "x")] {
            let spec = json!({"use": "machines", "cidrs": ["10.0.0.0/24"]});
            assert!(pools.apply(&subnet(name, order, spec.clone(), &["10.0.0.0/24"])));
            assert!(!pools.apply(&subnet(name, order, spec, &["10.0.0.0/24"])));
        }
        let names: Vec<&str> =
            pools.in_order().into_iter().map(|pool| pool.name.as_str()).collect();
        assert_eq!(names, ["b", "a", "c"]);
    }

    #[test]
    fn an_address_outside_of_the_ranges_is_another_pools() {
        let mut pools = Pools::default();
        for (name, range) in [("a", "10.0.0.10-10.0.0.19"), ("b", "10.0.0.20-10.0.0.29")] {
            let spec = json!({"use": "machines", "cidrs": ["10.0.0.0/24"], "ranges": [range]});
            pools.apply(&subnet(name, "1", spec, &["10.0.0.0/24"]));
        }
        let holding =
            |address: &str| pools.holding(address.parse().unwrap()).map(|pool| pool.name.clone());
        assert_eq!(holding("10.0.0.20").as_deref(), Some("b"));
        assert_eq!(holding("10.0.0.30"), None);
    }
}
