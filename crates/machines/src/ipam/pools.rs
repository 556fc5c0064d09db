//! The Subnets that machines draw on, in their order.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use berth_addr::{AddressSet, Family, Plan, Prefix};
use berth_api::Subnet;
use berth_api::subnet::Use;
use kube::ResourceExt;

/// On a Subnet that machines draw on; its value is a number, and lower ones are tried first.
pub const NETWORK_LABEL: &str = "berth.dev/machine-network";

/// A Subnet, as machines need to know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    pub name: String,
    order: u32,
    /// As the ledger follows it.
    pub cidrs: Vec<Prefix>,
    /// What it hands out and nobody else does.
    space: AddressSet,
    gateways: Vec<IpAddr>,
    pub dns: Vec<IpAddr>,
    /// The ledger knows it, and nothing else has its addresses.
    pub usable: bool,
    /// The subnet controller has looked at it.
    pub decided: bool,
}

impl Pool {
    /// `None` for one that machines do not draw on.
    pub fn of(subnet: &Subnet) -> Option<Self> {
        let order = subnet.labels().get(NETWORK_LABEL)?;
        if subnet.spec.usage != Use::Machines {
            return None;
        }
        let addresses = |texts: &[String]| texts.iter().filter_map(|text| text.parse().ok()).collect();
        let status = subnet.status.as_ref();
        let followed = status.map(|status| status.cidrs.as_slice()).unwrap_or_default();
        let cidrs: Vec<Prefix> = followed.iter().filter_map(|cidr| cidr.parse().ok()).collect();
        let plan = Plan {
            cidrs: cidrs.clone(),
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
        Some(Self {
            name: subnet.name_any(),
            order: order.parse().unwrap_or(u32::MAX),
            space: plan.space().unwrap_or_default(),
            cidrs,
            gateways: addresses(&subnet.spec.gateways),
            dns: addresses(&subnet.spec.dns),
            decided: status.is_some_and(|status| !status.conditions.is_empty()) || serving,
            usable: serving && !is_overlapping(subnet) && subnet.metadata.deletion_timestamp.is_none(),
        })
    }

    pub fn has(&self, family: Family) -> bool {
        self.cidrs.iter().any(|cidr| cidr.family() == family)
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        self.space.contains(address)
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

/// Other Subnets are refused by the ledger. Services are not its to know: machines that have their
/// addresses could not be reached.
fn is_overlapping(subnet: &Subnet) -> bool {
    let conditions = subnet.status.iter().flat_map(|status| &status.conditions);
    let mut overlapping = conditions.filter(|condition| condition.type_ == "Overlapping");
    overlapping.any(|condition| condition.status == "True")
}

/// All of them.
#[derive(Clone, Debug, Default)]
pub struct Pools {
    by_name: BTreeMap<String, Pool>,
}

impl Pools {
    /// Whether anything is other than before.
    pub fn apply(&mut self, subnet: &Subnet) -> bool {
        match Pool::of(subnet) {
            Some(pool) => {
                let before = self.by_name.insert(pool.name.clone(), pool.clone());
                before.as_ref() != Some(&pool)
            }
            None => self.delete(&subnet.name_any()),
        }
    }

    /// Whether all are decided on, and those of these names are there: until then it is not known
    /// which is the first that has an address, nor of which families a machine gets one.
    pub fn are_decided(&self, names: &[String]) -> bool {
        let known = |name: &String| self.by_name.contains_key(name);
        names.iter().all(known) && self.by_name.values().all(|pool| pool.decided)
    }

    pub fn delete(&mut self, name: &str) -> bool {
        self.by_name.remove(name).is_some()
    }

    /// As they are to be tried.
    pub fn in_order(&self) -> Vec<&Pool> {
        let mut pools: Vec<&Pool> = self.by_name.values().collect();
        pools.sort_by_key(|pool| (pool.order, &pool.name));
        pools
    }

    /// The families that a machine gets an address of.
    pub fn families(&self) -> BTreeSet<Family> {
        let has = |family: &Family| self.by_name.values().any(|pool| pool.has(*family));
        Family::ALL.into_iter().filter(has).collect()
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
        serde_json::from_value(json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Subnet",
            "metadata": {"name": name, "labels": {NETWORK_LABEL: order}},
            "spec": spec,
            "status": {"cidrs": cidrs, "capacity": 5},
        }))
        .unwrap()
    }

    #[test]
    fn pools_are_tried_by_their_number_and_not_by_its_text() {
        let mut pools = Pools::default();
        for (name, order) in [("a", "10"), ("b", "9"), ("c", "x")] {
            let spec = json!({"use": "machines", "cidrs": ["10.0.0.0/24"]});
            assert!(pools.apply(&subnet(name, order, spec.clone(), &["10.0.0.0/24"])));
            assert!(!pools.apply(&subnet(name, order, spec, &["10.0.0.0/24"])));
        }
        let names: Vec<&str> = pools.in_order().into_iter().map(|pool| pool.name.as_str()).collect();
        assert_eq!(names, ["b", "a", "c"]);
    }

    #[test]
    fn an_address_outside_of_the_ranges_is_another_pools() {
        let mut pools = Pools::default();
        for (name, range) in [("a", "10.0.0.10-10.0.0.19"), ("b", "10.0.0.20-10.0.0.29")] {
            let spec = json!({"use": "machines", "cidrs": ["10.0.0.0/24"], "ranges": [range]});
            pools.apply(&subnet(name, "1", spec, &["10.0.0.0/24"]));
        }
        let holding = |address: &str| pools.holding(address.parse().unwrap()).map(|pool| pool.name.clone());
        assert_eq!(holding("10.0.0.20").as_deref(), Some("b"));
        assert_eq!(holding("10.0.0.30"), None);
    }

    #[test]
    fn a_gateway_inside_of_the_cidr_comes_before_one_outside() {
        let spec = json!({
            "use": "machines", "cidrs": ["10.0.0.0/24", "10.0.1.0/24", "fd00::/64"],
            "gateways": ["10.0.1.1", "10.0.0.1", "fe80::1"],
        });
        let pool = Pool::of(&subnet("a", "1", spec, &["10.0.0.0/24", "10.0.1.0/24", "fd00::/64"])).unwrap();
        let gateway = |address: &str| pool.gateway_for(address.parse().unwrap()).unwrap().to_string();
        assert_eq!(gateway("10.0.0.9"), "10.0.0.1");
        assert_eq!(gateway("10.0.1.9"), "10.0.1.1");
        assert_eq!(gateway("fd00::9"), "fe80::1");
    }

    #[test]
    fn a_pool_that_has_addresses_of_services_is_not_used() {
        let spec = json!({"use": "machines", "cidrs": ["10.96.0.0/24"]});
        let mut object = subnet("a", "1", spec, &["10.96.0.0/24"]);
        assert!(Pool::of(&object).unwrap().usable);
        let condition = json!({
            "type": "Overlapping", "status": "True", "reason": "Services", "message": "",
            "lastTransitionTime": "2026-11-16T00:00:00Z",
        });
        object.status.as_mut().unwrap().conditions = vec![serde_json::from_value(condition).unwrap()];
        assert!(!Pool::of(&object).unwrap().usable);
    }
}
