//! What to ask the allocator for, and whether its answer is explained by it. Pure.

use std::collections::BTreeSet;

use berth_api::NodeNetworkConfig;
use berth_api::nnc::NetworkContainer;
use berth_ledger::LeaseId;
use uuid::Uuid;

use super::status::pairs;
use crate::allocator::{Container, Update};
use crate::assignments::{Basis, assignments, count, given_back, leases_of, names_of, request_id};
use crate::facts::version;

/// What an NNC's spec comes to, for a container that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// From it the names of new leases follow.
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

    /// What the node may ask for now. What it gives back goes back at once; only for more must it
    /// wait until it is next. Gives how many it waits for.
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

/// The version that a container begins with where the status has none: 0. But the status of
/// an NNC that asks for something may have had it before, and lost it; with the same versions,
/// other addresses would come under the names of those that were there. So it begins with one that
/// the container can't have had: the object's own version, which goes up with every write. An NNC
/// whose spec has never changed since it was created is taken for new; and one that asks for
/// nothing will change its spec before it gets anything.
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
/// The allocator may answer from a memory that another writer has overtaken. What the request
/// itself gave and took is as the store has it. But an address that came or went without it must be
/// looked for in the store first, after the NNC was read: to list one that is somebody else's by
/// now would give it to two, to drop one that is held would take it from under a pod. Who takes or
/// gives anything meanwhile does so because the NNC has changed, and then the write of the
/// status is refused.
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
        // Who asks for no more does not wait.
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
    fn a_container_that_may_have_been_there_before_begins_with_a_version_that_it_can_not_have_had()
    {
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
    fn an_address_that_goes_without_having_been_given_back_is_not_explained() {
        let had = had(&[1, 2]);
        assert!(!is_explained(
            &had,
            &request(2, &[], &had, None),
            &answer(vec![lease(1)])
        ));
    }

    #[test]
    fn an_address_that_comes_without_having_been_asked_for_is_not_explained() {
        let had = had(&[1]);
        assert!(!is_explained(
            &had,
            &request(2, &[], &had, None),
            &answer(vec![lease(1), lease(2)])
        ));
    }

    #[test]
    fn another_address_under_the_same_name_or_another_primary_is_not_explained() {
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
