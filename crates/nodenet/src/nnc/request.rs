//! What to ask the allocator for, and whether the request explains the answer. Pure.

use std::collections::BTreeSet;

use berth_api::NodeNetworkConfig;
use berth_api::nnc::NetworkContainer;
use berth_ledger::LeaseId;
use uuid::Uuid;

use super::status::pairs;
use crate::allocator::{Container, Update};
use crate::assignments::{Basis, assignments, count, given_back, leases_of, names_of, request_id};
use crate::facts::version;

/// The request that follows from an NNC's spec, for a container that exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The names of new leases are derived from it.
    pub id: Uuid,
    pub count: usize,
    pub give_back: BTreeSet<LeaseId>,
    /// How many leases more than it has.
    pub growth: usize,
}

impl Request {
    /// `max` is the most that a node may have: an agent may have asked for more before it was
    /// lowered.
    pub fn of(
        nnc: &NodeNetworkConfig,
        had: &NetworkContainer,
        container: Uuid,
        max: Option<i64>,
    ) -> Self {
        let spec = &nnc.spec;
        let asked = spec.requested_ip_count.min(max.unwrap_or(i64::MAX));
        let count_asked = usize::try_from(asked).unwrap_or(0);
        let give_back = given_back(&spec.ips_not_in_use, &had.ip_assignments);
        let releasing = names_of(&give_back);
        let kept: Vec<_> = had
            .ip_assignments
            .iter()
            .filter(|one| !releasing.contains(&one.name))
            .cloned()
            .collect();
        let basis = Basis {
            nnc: nnc.metadata.uid.as_deref().unwrap_or_default(),
            generation: nnc.metadata.generation.unwrap_or_default(),
            container,
            version: had.version,
        };
        Self {
            id: request_id(basis, count_asked, &spec.ips_not_in_use),
            count: count_asked,
            give_back,
            growth: count_asked.saturating_sub(count(&kept)),
        }
    }

    /// What the node may ask for now. It gives addresses back at once; only for more it must wait
    /// until it is next. Also returns how many it waits for.
    pub fn in_turn(self, is_next: bool) -> (Self, usize) {
        if is_next || self.growth == 0 {
            return (self, 0);
        }
        let waits_for = self.growth;
        let without_growth = Self {
            count: 0,
            growth: 0,
            ..self
        };
        (without_growth, waits_for)
    }

    pub fn update(&self) -> Update {
        Update {
            request: self.id,
            count: self.count,
            give_back: self.give_back.iter().copied().collect(),
        }
    }
}

/// The version that a container begins with if the status has none. It is 0 for an NNC whose spec
/// has never changed, which is new, and for one that asks for nothing, whose spec will change
/// before it gets anything. Any other status may have had the container before, and lost it: if its
/// versions came again, other addresses would get the names of earlier ones. So it begins with the
/// object's own version, which goes up with every write and so is new to the container.
pub fn first_version(nnc: &NodeNetworkConfig) -> i64 {
    let spec = &nnc.spec;
    let asks = spec.requested_ip_count > 0 || !spec.ips_not_in_use.is_empty();
    let is_new = nnc.metadata.generation.is_none_or(|generation| generation <= 1);
    if asks && !is_new {
        i64::try_from(version(nnc)).unwrap_or(0)
    } else {
        0
    }
}

/// Whether an answer follows from what the status says and from what was asked for just now.
///
/// The allocator may answer from memory that another writer has overtaken. What the request itself
/// gave and took is as the store has it. Any other address that came or went must be looked up in
/// the store first, after the NNC was read: listing an address that has another owner by now would
/// give it to two, and dropping one that is held would take it from a pod. Any change meanwhile
/// comes from a change of the NNC, and then the write of the status is refused.
pub fn is_explained(had: &NetworkContainer, requested: &Request, answer: &Container) -> bool {
    let mut primaries = answer.primary.iter().map(|unit| unit.first().to_string());
    let same_place = primaries.next().as_deref() == Some(had.primary_ip.as_str())
        && primaries.next() == had.primary_ip_v6;
    let listed = pairs(&had.ip_assignments);
    let answered = assignments(&answer.secondaries);
    let answered = pairs(&answered);
    if !same_place || listed == answered {
        return same_place;
    }
    let gone = names_of(&requested.give_back);
    let came = names_of(&leases_of(requested.id, requested.count));
    listed.difference(&answered).all(|(name, _)| gone.contains(*name))
        && answered.difference(&listed).all(|(name, _)| came.contains(*name))
}

#[cfg(test)]
mod tests {
    use berth_api::NodeNetworkConfigSpec;

    use super::*;
    use crate::allocator::Secondary;

    fn lease(n: u128) -> Secondary {
        let address = std::net::Ipv4Addr::from_bits(0x0a40_0000 + u32::try_from(n % 256).unwrap());
        Secondary {
            id: Uuid::from_u128(n),
            units: vec![std::net::IpAddr::from(address).into()],
        }
    }

    fn had(leases: &[u128]) -> NetworkContainer {
        let leases: Vec<Secondary> = leases.iter().map(|n| lease(*n)).collect();
        NetworkContainer {
            primary_ip: "10.64.0.1".to_owned(),
            ip_assignments: assignments(&leases),
            ..NetworkContainer::default()
        }
    }

    fn answer(leases: Vec<Secondary>) -> Container {
        Container {
            id: Uuid::nil(),
            subnet: "pods".to_owned(),
            primary: vec!["10.64.0.1/32".parse().unwrap()],
            secondaries: leases,
            short: 0,
        }
    }

    fn request(
        count: i64,
        not_in_use: &[u128],
        had: &NetworkContainer,
        max: Option<i64>,
    ) -> Request {
        let names = not_in_use.iter().map(|n| Uuid::from_u128(*n).to_string()).collect();
        let spec = NodeNetworkConfigSpec {
            requested_ip_count: count,
            ips_not_in_use: names,
            ..NodeNetworkConfigSpec::default()
        };
        Request::of(&NodeNetworkConfig::new("n", spec), had, Uuid::nil(), max)
    }

    #[test]
    fn names_given_back_do_not_count_towards_what_is_asked_for() {
        let requested = request(3, &[1, 99], &had(&[1, 2, 3]), None);
        assert_eq!((requested.count, requested.growth), (3, 1));
        assert!(requested.give_back.contains(&Uuid::from_u128(1)));
    }

    #[test]
    fn who_is_not_next_gives_back_and_waits_for_more() {
        let had = had(&[1, 2, 3]);
        let whole = request(4, &[1], &had, None);
        assert_eq!(whole.clone().in_turn(true), (whole.clone(), 0));
        let (now, waits_for) = whole.clone().in_turn(false);
        assert_eq!((now.count, &now.give_back, waits_for), (0, &whole.give_back, 2));
        // A node that asks for no more does not wait.
        let less = request(1, &[1], &had, None);
        assert_eq!(less.clone().in_turn(false), (less, 0));
    }

    #[test]
    fn nobody_gets_more_than_the_most_or_less_than_nothing() {
        assert_eq!(request(500, &[], &had(&[]), Some(250)).count, 250);
        assert_eq!(request(-1, &[], &had(&[]), Some(250)).count, 0);
        assert_eq!(request(1, &[], &had(&[1, 2]), None).growth, 0);
    }

    #[test]
    fn the_first_version_differs_from_any_lost_version() {
        let nnc = |generation, requested_ip_count| {
            let spec = NodeNetworkConfigSpec {
                requested_ip_count,
                ..NodeNetworkConfigSpec::default()
            };
            let mut nnc = NodeNetworkConfig::new("n", spec);
            nnc.metadata.generation = Some(generation);
            nnc.metadata.resource_version = Some("4711".to_owned());
            nnc
        };
        assert_eq!(first_version(&nnc(1, 0)), 0);
        assert_eq!(first_version(&nnc(1, 16)), 0);
        assert_eq!(first_version(&nnc(7, 0)), 0);
        assert_eq!(first_version(&nnc(7, 16)), 4711);
    }

    #[test]
    fn what_was_asked_for_explains_itself() {
        let had = had(&[1, 2]);
        let requested = request(2, &[1], &had, None);
        let new = *leases_of(requested.id, requested.count).first().unwrap();
        let new = Secondary { id: new, ..lease(7) };
        assert!(is_explained(&had, &requested, &answer(vec![lease(2), new])));
    }

    #[test]
    fn an_address_removed_without_a_release_is_not_explained() {
        let had = had(&[1, 2]);
        assert!(!is_explained(
            &had,
            &request(2, &[], &had, None),
            &answer(vec![lease(1)])
        ));
    }

    #[test]
    fn an_address_added_without_a_request_is_not_explained() {
        let had = had(&[1]);
        assert!(!is_explained(
            &had,
            &request(2, &[], &had, None),
            &answer(vec![lease(1), lease(2)])
        ));
    }

    #[test]
    fn a_changed_lease_address_or_primary_is_not_explained() {
        let had = had(&[1]);
        let requested = request(1, &[], &had, None);
        let moved = Secondary {
            id: lease(1).id,
            ..lease(9)
        };
        assert!(!is_explained(&had, &requested, &answer(vec![moved])));
        let mut elsewhere = answer(vec![lease(1)]);
        elsewhere.primary = vec![];
        assert!(!is_explained(&had, &requested, &elsewhere));
    }
}
