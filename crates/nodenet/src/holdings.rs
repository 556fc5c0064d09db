//! Which node has which address, as observed. Pure.
//!
//! Whatever is deleted, restored or edited by hand, three observers know which addresses are in
//! use: what NodeNetworkConfigs list, what agents hold beyond that, and what living pods show. What
//! each of them says is a [`Holding`].

mod holders;

use std::collections::BTreeSet;
use std::net::IpAddr;

use berth_addr::Prefix;
use berth_api::nnc::{IpAssignment, NetworkContainer, OVERLAY, UnknownHeld, held_of};
use berth_api::{LeaseOf, NodeNetworkConfig, lease_name};
use berth_ledger::{Claim, LeaseId, NotAnOwner, Owner};

use crate::allocator::ContainerRef;
use crate::assignments::leases_by_name;
use crate::pods::ObservedAddress;
pub use holders::{Conflict, Holders, by_unit};

/// A node has an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    pub unit: Prefix,
    pub nc: ContainerRef,
    pub use_: Use,
    pub lease: LeaseId,
    /// An nnc or an agent lists it, and not a pod alone.
    pub is_listed: bool,
    /// The living pod that shows it.
    pub pod: Option<String>,
}

/// What the node has the address for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// As its own.
    Primary,
    /// For pods.
    Secondary,
}

/// What the node has in this subnet according to its nnc: what the status lists and the agent has
/// not given back, and what the agent holds beyond that.
pub fn of_nnc(
    nnc: &NodeNetworkConfig,
    nc: &ContainerRef,
    subnet: &str,
) -> Result<Vec<Holding>, UnknownHeld> {
    let id = nc.id().to_string();
    let containers = nnc.status.iter().flat_map(|status| &status.network_containers);
    let ours = containers
        .filter(|container| container.container_type != OVERLAY && container.subnet_name == subnet);
    let mut holdings = Vec::new();
    for container in ours {
        if container.id == id {
            holdings.extend(primaries(container, nc));
        }
        let leases = leases_by_name(&container.ip_assignments);
        // Either name gives back the whole lease.
        let not_in_use = nnc.spec.ips_not_in_use.iter();
        let given_back: BTreeSet<&LeaseId> =
            not_in_use.filter_map(|name| leases.get(name.as_str())).collect();
        for assignment in &container.ip_assignments {
            let lease = leases.get(assignment.name.as_str()).copied();
            let (Some(lease), Ok(address)) = (lease, assignment.ip.parse()) else {
                continue;
            };
            if !given_back.contains(&lease) {
                holdings.push(secondary(address, nc, lease));
            }
        }
    }
    holdings.extend(held_beyond(nnc, nc)?);
    Ok(holdings)
}

/// What the agent holds, by its own report, although the status does not list it.
pub fn held_beyond(
    nnc: &NodeNetworkConfig,
    nc: &ContainerRef,
) -> Result<Vec<Holding>, UnknownHeld> {
    let held = held_of(nnc)?;
    let leases = leases_by_name(&held);
    let holding = |assignment: &IpAssignment| {
        let address = assignment.ip.parse().ok()?;
        // If the agent only knows the address, the name is derived from it.
        let lease = leases.get(assignment.name.as_str()).copied();
        Some(secondary(address, nc, lease.unwrap_or_else(|| unnamed(nc, address))))
    };
    Ok(held.iter().filter_map(holding).collect())
}

/// What a living pod shows.
pub fn of_pod(observed: &ObservedAddress, nc: &ContainerRef) -> Holding {
    Holding {
        is_listed: false,
        pod: Some(observed.pod.clone()),
        ..secondary(observed.address, nc, unnamed(nc, observed.first))
    }
}

impl Holding {
    pub fn owner(&self) -> Result<Owner, NotAnOwner> {
        match self.use_ {
            Use::Primary => self.nc.primary(),
            Use::Secondary => self.nc.secondary(),
        }
    }

    pub fn claim(&self, from: Option<Owner>) -> Result<Claim, NotAnOwner> {
        Ok(Claim {
            unit: self.unit,
            owner: self.owner()?,
            lease: self.lease,
            from,
        })
    }
}

fn secondary(address: IpAddr, nc: &ContainerRef, lease: LeaseId) -> Holding {
    Holding {
        unit: address.into(),
        nc: nc.clone(),
        use_: Use::Secondary,
        lease,
        is_listed: true,
        pod: None,
    }
}

/// Both addresses of a dual-stack pod share one lease.
fn unnamed(nc: &ContainerRef, first: IpAddr) -> LeaseId {
    lease_name(LeaseOf::Observed { nc: nc.id(), first })
}

fn primaries(container: &NetworkContainer, nc: &ContainerRef) -> Vec<Holding> {
    let texts = [Some(&container.primary_ip), container.primary_ip_v6.as_ref()];
    let addresses = texts
        .into_iter()
        .flatten()
        .filter_map(|text| text.parse::<IpAddr>().ok());
    let holding = |address| Holding {
        use_: Use::Primary,
        ..secondary(address, nc, nc.id())
    };
    addresses.map(holding).collect()
}

#[cfg(test)]
mod tests {
    use berth_api::nnc::HELD_ANNOTATION;
    use serde_json::{Value, json};
    use uuid::Uuid;

    use super::*;

    fn nc() -> ContainerRef {
        ContainerRef {
            cluster: "c".to_owned(),
            node: "n1".to_owned(),
            uid: "u1".to_owned(),
        }
    }

    fn lease(n: u128) -> Uuid {
        Uuid::from_u128(n)
    }

    fn nnc(assignments: Value, not_in_use: Value, held: &str) -> NodeNetworkConfig {
        let container = json!({
            "id": nc().id(), "type": "vnet", "subnetName": "pods", "primaryIP": "10.0.0.1",
            "subnetAddressSpace": "10.0.0.0/24", "ipAssignments": assignments,
        });
        let overlay = json!({"id": "o", "type": "overlay", "subnetName": "pods",
            "primaryIP": "10.9.0.0/24",
            "subnetAddressSpace": "10.9.0.0/24"});
        let object = json!({
            "apiVersion": "acn.azure.com/v1alpha", "kind": "NodeNetworkConfig",
            "metadata": {"name": "n1", "annotations": {HELD_ANNOTATION: held}},
            "spec": {"requestedIPCount": 0, "ipsNotInUse": not_in_use},
            "status": {"networkContainers": [container, overlay]},
        });
        serde_json::from_value(object).unwrap()
    }

    fn units_and_leases(holdings: &[Holding]) -> Vec<(String, LeaseId)> {
        holdings
            .iter()
            .map(|one| (one.unit.first().to_string(), one.lease))
            .collect()
    }

    #[test]
    fn what_is_listed_is_held_but_for_what_was_given_back() {
        let listed =
            json!([{"name": lease(1), "ip": "10.0.0.5"}, {"name": lease(2), "ip": "10.0.0.6"}]);
        let holdings = of_nnc(&nnc(listed, json!([lease(2)]), ""), &nc(), "pods").unwrap();
        assert_eq!(
            units_and_leases(&holdings),
            [("10.0.0.1".to_owned(), nc().id()), ("10.0.0.5".to_owned(), lease(1))]
        );
        assert_eq!((holdings[0].use_, holdings[1].use_), (Use::Primary, Use::Secondary));
    }

    #[test]
    fn both_addresses_of_a_lease_have_its_name_and_go_back_together() {
        let second = lease_name(LeaseOf::Ipv6 { lease: lease(1) });
        let listed =
            json!([{"name": lease(1), "ip": "10.0.0.5"}, {"name": second, "ip": "fd00::5"}]);
        let holdings = of_nnc(&nnc(listed.clone(), json!([]), ""), &nc(), "pods").unwrap();
        assert!(holdings[1..].iter().all(|one| one.lease == lease(1)));
        let holdings = of_nnc(&nnc(listed, json!([second]), ""), &nc(), "pods").unwrap();
        assert_eq!(holdings.len(), 1);
    }

    #[test]
    fn addresses_held_beyond_the_list_count_with_or_without_a_name() {
        let held = json!([{"name": lease(7), "ip": "10.0.0.7"}, {"name": "", "ip": "10.0.0.8"}]);
        let holdings = held_beyond(&nnc(json!([]), json!([]), &held.to_string()), &nc()).unwrap();
        assert_eq!(holdings[0].lease, lease(7));
        assert_eq!(holdings[1].lease, unnamed(&nc(), "10.0.0.8".parse().unwrap()));
        let nonsense = nnc(json!([]), json!([]), "not a list");
        assert!(held_beyond(&nonsense, &nc()).unwrap().is_empty());
    }

    #[test]
    fn what_a_kept_annotation_says_is_held() {
        for kept in berth_testkit::stores::kept() {
            let held = std::fs::read_to_string(kept.join("held.annotation.json")).unwrap();
            let holdings = held_beyond(&nnc(json!([]), json!([]), &held), &nc()).unwrap();
            let units: Vec<String> = holdings.iter().map(|one| one.unit.to_string()).collect();
            assert_eq!(units, ["10.64.0.9/32"]);
        }
    }

    #[test]
    fn what_a_later_agent_holds_is_an_error_that_names_the_node() {
        let later = nnc(json!([]), json!([]), r#"{"format": 9, "held": {}}"#);
        let error = of_nnc(&later, &nc(), "pods").unwrap_err().to_string();
        let begin = "NodeNetworkConfig n1: metadata.annotations[berth.dev/held]: it is in format 9";
        assert!(error.starts_with(begin), "{error}");
    }

    #[test]
    fn another_subnet_is_none_of_this_one() {
        let listed = json!([{"name": lease(1), "ip": "10.0.0.5"}]);
        assert!(of_nnc(&nnc(listed, json!([]), ""), &nc(), "other").unwrap().is_empty());
    }
}
