//! A Subnet, as machines and claims need to know it.

use std::net::IpAddr;
use std::time::Duration;

use berth_addr::{AddressSet, Family, Plan, Prefix};
use berth_api::Subnet;
use berth_api::subnet::Use;
use berth_ledger::{Ledger, LedgerError, Outlook, Owner};
use kube::ResourceExt;
use tokio::sync::watch;
use tracing::info;

const REGISTERED_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    pub name: String,
    pub uid: String,
    /// As the ledger follows it.
    pub cidrs: Vec<Prefix>,
    /// The addresses that only this pool hands out.
    space: AddressSet,
    gateways: Vec<IpAddr>,
    pub dns: Vec<IpAddr>,
    pub is_for_machines: bool,
    /// Whether the subnet controller has decided on it.
    pub is_decided: bool,
    /// Whether the ledger knows it, or will in a moment.
    is_serving: bool,
    is_overlapping: bool,
    is_deleting: bool,
}

impl Pool {
    pub fn of(subnet: &Subnet) -> Self {
        let addresses =
            |texts: &[String]| texts.iter().filter_map(|text| text.parse().ok()).collect();
        let status = subnet.status.as_ref();
        let followed = status.map(|status| status.cidrs.as_slice()).unwrap_or_default();
        let ranges = subnet.spec.ranges.iter().filter_map(|range| range.parse().ok());
        let plan = Plan {
            cidrs: followed.iter().filter_map(|cidr| cidr.parse().ok()).collect(),
            ranges: ranges.collect(),
            shares_cidrs: true,
            ..Plan::default()
        };
        let conditions = || status.into_iter().flat_map(|status| &status.conditions);
        let is_serving = status.is_some_and(|status| status.capacity.is_some());
        Self {
            name: subnet.name_any(),
            uid: subnet.uid().unwrap_or_default(),
            space: plan.space().unwrap_or_default(),
            cidrs: plan.cidrs,
            gateways: addresses(&subnet.spec.gateways),
            dns: addresses(&subnet.spec.dns),
            is_for_machines: subnet.spec.usage == Use::Machines,
            is_decided: is_serving || conditions().next().is_some(),
            is_serving,
            // The ledger refuses overlaps with other Subnets, but does not know Services: machines
            // with their addresses could not be reached.
            is_overlapping: conditions()
                .any(|found| found.type_ == "Overlapping" && found.status == "True"),
            is_deleting: subnet.metadata.deletion_timestamp.is_some(),
        }
    }

    pub fn is_usable(&self) -> bool {
        self.why_unusable().is_none()
    }

    /// Why no address can be had from it.
    pub fn why_unusable(&self) -> Option<String> {
        let name = &self.name;
        if !self.is_for_machines {
            Some(format!(
                "Subnet {name} is not for machines: name one whose use is machines"
            ))
        } else if self.is_deleting {
            Some(format!("Subnet {name} is being deleted"))
        } else if !self.is_serving || self.is_overlapping {
            Some(format!("Subnet {name} is not ready: see its conditions"))
        } else {
            None
        }
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

    /// The gateway for the address: one inside of the CIDR comes before one outside.
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

/// The names of the pools that the ledger must know before an owner counts as one without an
/// address.
pub fn in_ledger<'a>(pools: impl IntoIterator<Item = &'a Pool>) -> Vec<String> {
    let known = |pool: &&Pool| pool.is_for_machines && pool.is_serving && !pool.is_deleting;
    let pools = pools.into_iter().filter(known);
    pools.map(|pool| pool.name.clone()).collect()
}

/// The pool's outlook once the ledger knows the pool, which it may not yet in the first moments of
/// a process. `None` once the pool is gone.
pub async fn outlook(
    ledger: &Ledger,
    pool: &str,
    is_there: impl Fn() -> bool,
) -> Option<watch::Receiver<Outlook>> {
    while is_there() {
        if let Some(outlook) = ledger.outlook(pool).await {
            return Some(outlook);
        }
        tokio::time::sleep(REGISTERED_INTERVAL).await;
    }
    None
}

/// Gives back all that `owner` has, in any subnet. It fails while the ledger does not know one of
/// `pools` yet, as in the first moments of a process: if that counted as "has nothing", the address
/// would never be given back.
pub async fn release_all(
    ledger: &Ledger,
    owner: &Owner,
    pools: Vec<String>,
) -> Result<(), LedgerError> {
    let known = ledger.subnets().await;
    if let Some(subnet) = pools.into_iter().find(|pool| !known.contains(pool)) {
        return Err(LedgerError::NoSubnet { subnet });
    }
    for subnet in known {
        let released = ledger.release(&subnet, owner, None).await?;
        if !released.is_empty() {
            info!(subnet, %owner, "released the addresses of the owner");
        }
    }
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use serde_json::json;

    use super::*;

    pub fn subnet(name: &str, spec: serde_json::Value, cidrs: &[&str]) -> Subnet {
        serde_json::from_value(json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Subnet",
            "metadata": {"name": name},
            "spec": spec,
            "status": {"cidrs": cidrs, "capacity": 5},
        }))
        .unwrap()
    }

    #[test]
    fn a_gateway_inside_of_the_cidr_comes_before_one_outside() {
        let spec = json!({
            "use": "machines", "cidrs": ["10.0.0.0/24", "10.0.1.0/24", "fd00::/64"],
            "gateways": ["10.0.1.1", "10.0.0.1", "fe80::1"],
        });
        let pool = Pool::of(&subnet("a", spec, &["10.0.0.0/24", "10.0.1.0/24", "fd00::/64"]));
        let gateway =
            |address: &str| pool.gateway_for(address.parse().unwrap()).unwrap().to_string();
        assert_eq!(gateway("10.0.0.9"), "10.0.0.1");
        assert_eq!(gateway("10.0.1.9"), "10.0.1.1");
        assert_eq!(gateway("fd00::9"), "fe80::1");
    }

    #[test]
    fn a_pool_that_has_addresses_of_services_is_not_used() {
        let spec = json!({"use": "machines", "cidrs": ["10.96.0.0/24"]});
        let mut object = subnet("a", spec, &["10.96.0.0/24"]);
        assert!(Pool::of(&object).is_usable());
        let condition = json!({
            "type": "Overlapping", "status": "True", "reason": "Services", "message": "",
            "lastTransitionTime": "2026-11-16T00:00:00Z",
        });
        object.status.as_mut().unwrap().conditions =
            vec![serde_json::from_value(condition).unwrap()];
        assert!(!Pool::of(&object).is_usable());
    }
}
