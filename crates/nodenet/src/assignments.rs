//! Leases as a NodeNetworkConfig lists them: one assignment for each address, under names that are
//! never used again.
//!
//! Both addresses of a dual-stack lease belong together, see [`LeaseOf::Ipv6`]. An agent that gives
//! back either gives back the lease.

use std::collections::{BTreeMap, BTreeSet};

use berth_api::nnc::IpAssignment;
use berth_api::{LeaseOf, lease_name};
use berth_ledger::LeaseId;
use uuid::Uuid;

use crate::allocator::Secondary;

fn ipv6_name(lease: LeaseId) -> Uuid {
    lease_name(LeaseOf::Ipv6 { lease })
}

pub fn assignments(secondaries: &[Secondary]) -> Vec<IpAssignment> {
    let of_lease = |secondary: &Secondary| {
        let names = [secondary.id, ipv6_name(secondary.id)];
        let named = names.into_iter().zip(secondary.units.clone());
        named.map(|(name, unit)| IpAssignment {
            name: name.to_string(),
            ip: unit.first().to_string(),
        })
    };
    secondaries.iter().flat_map(of_lease).collect()
}

/// The leases that an agent gives back. Names that are not ours are left out; the allocator ignores
/// leases that are gone already.
pub fn given_back(names: &[String], listed: &[IpAssignment]) -> BTreeSet<LeaseId> {
    let names: BTreeSet<Uuid> = names.iter().filter_map(|name| name.parse().ok()).collect();
    if names.is_empty() {
        return names;
    }
    let listed = listed.iter().filter_map(|assignment| assignment.name.parse().ok());
    let leases: BTreeMap<Uuid, LeaseId> = listed.map(|lease| (ipv6_name(lease), lease)).collect();
    names
        .iter()
        .map(|name| leases.get(name).copied().unwrap_or(*name))
        .collect()
}

/// The lease of each name: both addresses of a dual-stack lease have one.
pub fn leases_by_name(listed: &[IpAssignment]) -> BTreeMap<&str, LeaseId> {
    let names: BTreeMap<&str, Uuid> = listed
        .iter()
        .filter_map(|assignment| Some((assignment.name.as_str(), assignment.name.parse().ok()?)))
        .collect();
    let firsts: BTreeMap<Uuid, LeaseId> =
        names.values().map(|name| (ipv6_name(*name), *name)).collect();
    let lease = |name: Uuid| firsts.get(&name).copied().unwrap_or(name);
    names.into_iter().map(|(text, name)| (text, lease(name))).collect()
}

/// The names that leave the list together with these leases.
pub fn names_of(leases: &BTreeSet<LeaseId>) -> BTreeSet<String> {
    let both = |lease: &LeaseId| [lease.to_string(), ipv6_name(*lease).to_string()];
    leases.iter().flat_map(both).collect()
}

/// How many leases a list has, whichever families they have.
pub fn count(listed: &[IpAssignment]) -> usize {
    let names: BTreeSet<Uuid> = listed
        .iter()
        .filter_map(|assignment| assignment.name.parse().ok())
        .collect();
    let seconds: BTreeSet<Uuid> = names.iter().map(|name| ipv6_name(*name)).collect();
    names.difference(&seconds).count()
}

/// The state that a request is based on.
#[derive(Clone, Copy, Debug)]
pub struct Basis<'a> {
    /// The NodeNetworkConfig's UID.
    pub nnc: &'a str,
    /// The generation of its spec.
    pub generation: i64,
    pub container: Uuid,
    /// The container's version.
    pub version: i64,
}

/// The id of a request is derived from what is requested, and for what. So a controller that was
/// restarted repeats the same request. The version goes up with every change of the list, so no two
/// requests that lease have the same id, and no lease gets the name of an earlier one. A container
/// that is lost and made again may begin with an earlier version, but not while the spec is the
/// same: see `nnc::request::first_version`.
pub fn request_id(basis: Basis<'_>, count: usize, not_in_use: &[String]) -> Uuid {
    let Basis {
        nnc,
        generation,
        container,
        version,
    } = basis;
    let not_in_use: BTreeSet<&str> = not_in_use.iter().map(String::as_str).collect();
    let not_in_use: Vec<&str> = not_in_use.into_iter().collect();
    let text = format!("request/{nnc}/{generation}/{version}/{count}/{}", not_in_use.join("/"));
    Uuid::new_v5(&container, text.as_bytes())
}

/// The names that a request can have given to its leases.
pub fn leases_of(request: Uuid, count: usize) -> BTreeSet<LeaseId> {
    let name = |number| lease_name(LeaseOf::Request { request, number });
    (0..count).map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secondary(id: u128, units: &[&str]) -> Secondary {
        Secondary {
            id: Uuid::from_u128(id),
            units: units.iter().map(|unit| unit.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn assignments_have_bare_addresses_and_unique_names() {
        let listed = assignments(&[
            secondary(1, &["10.0.0.5/32", "fd64::5/128"]),
            secondary(2, &["fd64::6/128"]),
        ]);
        let addresses: Vec<&str> = listed.iter().map(|assignment| assignment.ip.as_str()).collect();
        assert_eq!(addresses, ["10.0.0.5", "fd64::5", "fd64::6"]);
        assert_eq!(listed[0].name, Uuid::from_u128(1).to_string());
        assert_eq!(listed[2].name, Uuid::from_u128(2).to_string());
        assert_ne!(listed[1].name, listed[0].name);
        assert_eq!(count(&listed), 2);
    }

    #[test]
    fn either_name_gives_a_lease_back_and_other_names_are_ignored() {
        let listed = assignments(&[secondary(1, &["10.0.0.5/32", "fd64::5/128"])]);
        let lease = BTreeSet::from([Uuid::from_u128(1)]);
        for names in [
            vec![listed[0].name.clone()],
            vec![listed[1].name.clone(), "eth0".to_owned()],
        ] {
            assert_eq!(given_back(&names, &listed), lease);
        }
        assert!(given_back(&["".to_owned(), "10.0.0.5".to_owned()], &listed).is_empty());
        assert_eq!(names_of(&lease).len(), 2);
    }

    #[test]
    fn a_name_that_is_gone_is_passed_on_to_be_ignored() {
        let gone = Uuid::from_u128(9);
        assert_eq!(given_back(&[gone.to_string()], &[]), BTreeSet::from([gone]));
    }

    #[test]
    fn a_request_id_changes_exactly_with_the_spec_and_the_list() {
        let names = ["b".to_owned(), "a".to_owned()];
        let basis = Basis {
            nnc: "uid",
            generation: 2,
            container: Uuid::from_u128(7),
            version: 3,
        };
        let first = request_id(basis, 16, &names);
        assert_eq!(first, request_id(basis, 16, &["a".to_owned(), "b".to_owned()]));
        let another = Basis {
            nnc: "another",
            ..basis
        };
        let container = Basis {
            container: Uuid::from_u128(8),
            ..basis
        };
        for other in [
            request_id(another, 16, &names),
            request_id(container, 16, &names),
            request_id(
                Basis {
                    generation: 3,
                    ..basis
                },
                16,
                &names,
            ),
            request_id(Basis { version: 4, ..basis }, 16, &names),
            request_id(basis, 17, &names),
            request_id(basis, 16, &names[..1]),
        ] {
            assert_ne!(first, other);
        }
    }
}
