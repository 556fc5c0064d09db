//! What to ask the allocator for, and whether its answer can be believed. Pure.

use std::collections::BTreeSet;

use berth_api::NodeNetworkConfig;
use berth_api::nnc::NetworkContainer;
use berth_ledger::LeaseId;
use uuid::Uuid;

use super::assignments::{Basis, assignments, count, given_back, leases_of, names_of, request};
use super::facts::{Owner, version};
use super::status::pairs;
use crate::allocator::{Container, Update};
use crate::node;

/// What a config's spec comes to, for a container that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    pub request: Uuid,
    pub count: usize,
    pub give_back: BTreeSet<LeaseId>,
    /// How many leases more than it has.
    pub growth: usize,
}

impl Wish {
    /// `most` is the most that a node may have: an agent may have asked for more before it was
    /// lowered.
    pub fn of(
        config: &NodeNetworkConfig,
        had: &NetworkContainer,
        container: Uuid,
        most: Option<i64>,
    ) -> Self {
        let spec = &config.spec;
        let asked = spec.requested_ip_count.min(most.unwrap_or(i64::MAX));
        let wanted = usize::try_from(asked).unwrap_or(0);
        let give_back = given_back(&spec.ips_not_in_use, &had.ip_assignments);
        let leaving = names_of(&give_back);
        let kept: Vec<_> = had
            .ip_assignments
            .iter()
            .filter(|one| !leaving.contains(&one.name))
            .cloned()
            .collect();
        let basis = Basis {
            config: config.metadata.uid.as_deref().unwrap_or_default(),
            generation: config.metadata.generation.unwrap_or_default(),
            container,
            version: had.version,
        };
        Self {
            request: request(basis, wanted, &spec.ips_not_in_use),
            count: wanted,
            give_back,
            growth: wanted.saturating_sub(count(&kept)),
        }
    }

    /// The same, but for what others wait for.
    pub fn without_growth(self) -> Self {
        Self {
            count: 0,
            growth: 0,
            ..self
        }
    }

    pub fn update(&self) -> Update {
        Update {
            request: self.request,
            count: self.count,
            give_back: self.give_back.iter().copied().collect(),
        }
    }
}

/// The version that a container begins with where the status has none: 0. But the status of a
/// config that asks for something may have had it before, and lost it; with the same versions,
/// other addresses would come under the names of those that were there. So it begins with one that
/// the container can't have had: the object's own version, which goes up with every write. A config
/// whose spec has never changed since it was created is taken for new; and one that asks for
/// nothing will change its spec before it gets anything.
pub fn first_version(config: &NodeNetworkConfig) -> i64 {
    let spec = &config.spec;
    let asks = spec.requested_ip_count > 0 || !spec.ips_not_in_use.is_empty();
    let is_new = config.metadata.generation.is_none_or(|generation| generation <= 1);
    if asks && !is_new {
        i64::try_from(version(config)).unwrap_or(0)
    } else {
        0
    }
}

/// Whether an answer follows from what the status says and from what was asked for just now.
///
/// The allocator may answer from a memory that another writer has overtaken. What the request
/// itself gave and took is as the store has it. But an address that came or went without it must be
/// looked for in the store first, after the config was read: to list one that is somebody else's by
/// now would give it to two, to drop one that is held would take it from under a pod. Who takes or
/// gives anything meanwhile does so because the config has changed, and then the write of the
/// status is refused.
pub fn is_explained(had: &NetworkContainer, wish: &Wish, answer: &Container) -> bool {
    let mut primaries = answer.primary.iter().map(|unit| unit.first().to_string());
    let same_place = primaries.next().as_deref() == Some(had.primary_ip.as_str())
        && primaries.next() == had.primary_ip_v6;
    let listed = pairs(&had.ip_assignments);
    let answered = assignments(&answer.secondaries);
    let answered = pairs(&answered);
    if !same_place || listed == answered {
        return same_place;
    }
    let gone = names_of(&wish.give_back);
    let came = names_of(&leases_of(wish.request, wish.count));
    listed.difference(&answered).all(|(name, _)| gone.contains(*name))
        && answered.difference(&listed).all(|(name, _)| came.contains(*name))
}

/// Whether the config is this node's, or nobody's: then it is served.
pub fn is_of(config: &NodeNetworkConfig, node: &node::Facts) -> bool {
    match Owner::of(config) {
        Owner::Nobody => true,
        Owner::Node { uid } => uid == node.uid,
        Owner::Other => false,
    }
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

    fn wish(
        requested: i64,
        not_in_use: &[u128],
        had: &NetworkContainer,
        most: Option<i64>,
    ) -> Wish {
        let names = not_in_use.iter().map(|n| Uuid::from_u128(*n).to_string()).collect();
        let spec = NodeNetworkConfigSpec {
            requested_ip_count: requested,
            ips_not_in_use: names,
            ..NodeNetworkConfigSpec::default()
        };
        Wish::of(&NodeNetworkConfig::new("n", spec), had, Uuid::nil(), most)
    }

    #[test]
    fn names_given_back_do_not_count_towards_what_is_asked_for() {
        let wish = wish(3, &[1, 99], &had(&[1, 2, 3]), None);
        assert_eq!((wish.count, wish.growth), (3, 1));
        assert!(wish.give_back.contains(&Uuid::from_u128(1)));
    }

    #[test]
    fn nobody_gets_more_than_the_most_or_less_than_nothing() {
        assert_eq!(wish(500, &[], &had(&[]), Some(250)).count, 250);
        assert_eq!(wish(-1, &[], &had(&[]), Some(250)).count, 0);
        assert_eq!(wish(1, &[], &had(&[1, 2]), None).growth, 0);
    }

    #[test]
    fn a_container_that_may_have_been_there_before_begins_with_a_version_that_it_can_not_have_had()
    {
        let config = |generation, requested_ip_count| {
            let spec = NodeNetworkConfigSpec {
                requested_ip_count,
                ..NodeNetworkConfigSpec::default()
            };
            let mut config = NodeNetworkConfig::new("n", spec);
            config.metadata.generation = Some(generation);
            config.metadata.resource_version = Some("4711".to_owned());
            config
        };
        assert_eq!(first_version(&config(1, 0)), 0);
        assert_eq!(first_version(&config(1, 16)), 0);
        assert_eq!(first_version(&config(7, 0)), 0);
        assert_eq!(first_version(&config(7, 16)), 4711);
    }

    #[test]
    fn what_was_asked_for_explains_itself() {
        let had = had(&[1, 2]);
        let wish = wish(2, &[1], &had, None);
        let new = *leases_of(wish.request, wish.count).first().unwrap();
        let new = Secondary { id: new, ..lease(7) };
        assert!(is_explained(&had, &wish, &answer(vec![lease(2), new])));
    }

    #[test]
    fn an_address_that_goes_without_having_been_given_back_is_not_believed() {
        let had = had(&[1, 2]);
        assert!(!is_explained(&had, &wish(2, &[], &had, None), &answer(vec![lease(1)])));
    }

    #[test]
    fn an_address_that_comes_without_having_been_asked_for_is_not_believed() {
        let had = had(&[1]);
        assert!(!is_explained(
            &had,
            &wish(2, &[], &had, None),
            &answer(vec![lease(1), lease(2)])
        ));
    }

    #[test]
    fn another_address_under_the_same_name_or_another_primary_is_not_believed() {
        let had = had(&[1]);
        let wish = wish(1, &[], &had, None);
        let moved = Secondary {
            id: lease(1).id,
            ..lease(9)
        };
        assert!(!is_explained(&had, &wish, &answer(vec![moved])));
        let mut elsewhere = answer(vec![lease(1)]);
        elsewhere.primary = vec![];
        assert!(!is_explained(&had, &wish, &elsewhere));
    }
}
