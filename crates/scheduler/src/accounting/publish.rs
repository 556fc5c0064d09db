//! What each node is to publish as the extended resource. Pure.
//!
//! A scheduler subtracts what pods ask for by itself. So a node publishes how many pods it has an
//! IP for, less the pods that use an IP and do not ask. It never publishes less than its bound pods
//! ask for together: its kubelet would fail the next pod that comes.
//!
//! Nodes of one subnet share what it can still give, see [`super::level`]. No node gets more than a
//! batch, so the figures of a large subnet stay the same while pods come and go. Together the parts
//! are never more than there is.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Accounting;
use super::level::{Claim, level};
use super::node::{NodeEntry, Supply};
use super::subnet::SubnetEntry;
use crate::facts::{NncFacts, NodeFacts};

/// For a node that does not report how many pods it runs: the default of kubelets.
const DEFAULT_MAX_PODS: u64 = 110;

/// What a node has published, and what it is to publish. `None`: the resource is absent. A node
/// whose addresses are not known has none rather than 0: its kubelet does not check an absent
/// resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Publication {
    pub capacity: Option<u64>,
    pub allocatable: Option<u64>,
    pub target: Option<u64>,
}

impl Publication {
    pub fn is_done(&self) -> bool {
        self.capacity == self.target && self.allocatable == self.target
    }
}

impl Accounting {
    /// For every Node that there is.
    pub fn publications(&self) -> BTreeMap<Arc<str>, Publication> {
        let promised = self.promised();
        let known = self.nodes.iter();
        let there = known.filter_map(|(name, entry)| Some((name, entry, entry.node?)));
        let publications = there.map(|(name, entry, node)| {
            let publication = Publication {
                capacity: node.capacity,
                allocatable: node.allocatable,
                target: self.target(entry, node, promised.get(name).copied()),
            };
            (name.clone(), publication)
        });
        publications.collect()
    }

    /// How many pods each node of a subnet may have.
    fn promised(&self) -> BTreeMap<Arc<str>, u64> {
        let mut drawing: BTreeMap<&str, BTreeMap<&Arc<str>, (Claim, u64)>> = BTreeMap::new();
        for (name, entry) in &self.nodes {
            let Ok(Supply::Shared { subnet, has, max }) = entry.supply(self.rules()) else {
                continue;
            };
            let batch = match &entry.nnc {
                Some(NncFacts::Leases(leases)) => leases.batch,
                _ => 0,
            };
            let floor = has.min(max).max(entry.used);
            let limit = floor.saturating_add(batch).min(max);
            drawing
                .entry(subnet)
                .or_default()
                .insert(name, (Claim { floor, limit }, entry.used));
        }
        let mut promised = BTreeMap::new();
        for (subnet, nodes) in drawing {
            let balance = self.subnets.get(subnet).map(SubnetEntry::balance).unwrap_or_default();
            let mut claims: Vec<Claim> = nodes.values().map(|(claim, _)| *claim).collect();
            let spare: u128 =
                nodes.values().map(|(claim, used)| u128::from(claim.floor - used)).sum();
            let mut left = balance.pool;
            if balance.room < spare {
                // Pods elsewhere wait for what these nodes have to spare.
                let reduced = |(claim, used): &(Claim, u64)| Claim {
                    floor: *used,
                    limit: claim.floor,
                };
                claims = nodes.values().map(reduced).collect();
                left = balance.room;
            }
            let names = nodes.into_keys().cloned();
            promised.extend(names.zip(level(&claims, left)));
        }
        promised
    }

    fn target(&self, entry: &NodeEntry, node: NodeFacts, promised: Option<u64>) -> Option<u64> {
        let capacity = match entry.supply(self.rules()) {
            Err(_) => return None,
            Ok(Supply::Unlimited) if entry.settles_at.is_some() && self.gives_addresses => {
                return None;
            }
            Ok(Supply::Unlimited) => {
                let pods = node.max_pods.unwrap_or(DEFAULT_MAX_PODS);
                return Some(pods.max(entry.asked));
            }
            Ok(Supply::Fixed(pods)) => pods,
            Ok(Supply::Shared { has, .. }) => promised.unwrap_or(has),
        };
        // Kubernetes counts in i64.
        let capacity = capacity.min(i64::MAX.unsigned_abs());
        Some(capacity.saturating_sub(entry.used - entry.asking).max(entry.asked))
    }
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;
    use crate::accounting::tests::{bound, cidr, leases, shared};
    use crate::facts::{PodFacts, SubnetFacts};

    const NOW: Timestamp = Timestamp::constant(1_000_000, 0);

    fn asking(node: &str, asks: u64) -> PodFacts {
        PodFacts { asks, ..bound(node) }
    }

    fn target(accounting: &Accounting, node: &str) -> Option<u64> {
        accounting.publications()[node].target
    }

    #[test]
    fn only_pods_without_a_resource_request_are_subtracted() {
        let mut accounting = Accounting::default();
        accounting.apply_node("n", cidr(6));
        accounting.apply_pod("static", &bound("n"));
        accounting.apply_pod("asks", &asking("n", 1));
        assert_eq!(target(&accounting, "n"), Some(5));
    }

    #[test]
    fn it_is_never_less_than_bound_pods_ask_for() {
        let mut accounting = Accounting::default();
        accounting.apply_node("n", cidr(2));
        accounting.apply_pod("a", &asking("n", 1));
        accounting.apply_pod("b", &asking("n", 1));
        accounting.apply_pod("static", &bound("n"));
        assert_eq!(target(&accounting, "n"), Some(2));
        let host = PodFacts {
            needs_ip: false,
            ..asking("n", 3)
        };
        accounting.apply_pod("host", &host);
        assert_eq!(target(&accounting, "n"), Some(5));
    }

    #[test]
    fn a_node_in_doubt_publishes_nothing_rather_than_0() {
        let mut accounting = Accounting::default();
        accounting.apply_node("n", cidr(2));
        accounting.apply_nnc("n", NncFacts::Empty);
        assert_eq!(target(&accounting, "n"), None);
        accounting.apply_node("none", NodeFacts::default());
        assert_eq!(
            target(&accounting, "none"),
            Some(110),
            "what passes every pod runs as many as it can"
        );
    }

    /// After `kubectl delete node` the kubelet creates the Node again, and it is Ready at once.
    #[test]
    fn a_node_that_has_no_pod_cidr_yet_publishes_nothing() {
        let mut accounting = Accounting::default();
        accounting.advance(NOW);
        accounting.apply_node("n", cidr(5));
        accounting.delete_node("n");
        let made = NodeFacts {
            created: Some(NOW),
            ..NodeFacts::default()
        };
        accounting.apply_node("n", made);
        assert_eq!(target(&accounting, "n"), None);
        accounting.apply_node("n", cidr(5));
        assert_eq!(target(&accounting, "n"), Some(5));
        accounting.apply_node("virtual", made);
        assert_eq!(target(&accounting, "virtual"), None);
        accounting.advance(NOW + SignedDuration::from_secs(30));
        assert_eq!(target(&accounting, "virtual"), Some(110), "it is never given one");
    }

    #[test]
    fn parts_of_a_shared_subnet_add_up_to_what_is_there() {
        for available in 0..12 {
            let accounting = shared(&[("a", 1), ("b", 1), ("c", 1)], available);
            let sum: u64 = ["a", "b", "c"]
                .iter()
                .map(|node| target(&accounting, node).unwrap())
                .sum();
            assert_eq!(sum, 3 + available);
        }
        let plenty = shared(&[("a", 1), ("b", 1)], 900);
        assert_eq!(
            target(&plenty, "a"),
            Some(17),
            "no more than a batch beyond what it has"
        );
    }

    /// Pods and the agent then find the addresses that the scheduler was told of.
    #[test]
    fn figures_stand_still_while_pods_come_within_them() {
        let mut accounting = shared(&[("a", 1), ("b", 1), ("c", 1)], 8);
        let targets =
            |accounting: &Accounting| ["a", "b", "c"].map(|n| target(accounting, n).unwrap());
        assert_eq!(targets(&accounting), [4, 4, 3]);
        for uid in ["1", "2", "3"] {
            accounting.apply_pod(uid, &asking("a", 1));
            assert_eq!(targets(&accounting), [4, 4, 3]);
        }
        // Its agent has fetched three; the status of the Subnet follows later.
        accounting.apply_nnc("a", leases(4, 250));
        let facts = SubnetFacts {
            capacity: 1000,
            available: 5,
        };
        accounting.apply_subnet("pods", Some(facts));
        assert_eq!(targets(&accounting), [4, 4, 3]);
    }

    #[test]
    fn what_pods_elsewhere_wait_for_is_published_by_nobody() {
        // Two of a's pods wait for an address; b and c have three and one to spare.
        let mut accounting = shared(&[("a", 1), ("b", 3), ("c", 1)], 0);
        for uid in ["1", "2", "3"] {
            accounting.apply_pod(uid, &asking("a", 1));
        }
        let targets = ["a", "b", "c"].map(|node| target(&accounting, node).unwrap());
        assert_eq!(targets.iter().sum::<u64>(), 5, "{targets:?}");
    }

    #[test]
    fn no_node_publishes_more_than_its_max_ip_count() {
        let mut accounting = shared(&[("a", 1)], 900);
        accounting.apply_nnc("a", leases(3, 4));
        assert_eq!(target(&accounting, "a"), Some(4));
    }

    #[test]
    fn what_the_node_says_already_is_not_written_again() {
        let mut accounting = Accounting::default();
        let reported = |capacity, allocatable| NodeFacts {
            capacity,
            allocatable,
            ..cidr(6)
        };
        accounting.apply_node("n", reported(Some(6), Some(6)));
        assert!(accounting.publications()["n"].is_done());
        // A kubelet resets it to 0 when it creates the Node again.
        accounting.apply_node("n", reported(Some(0), Some(0)));
        assert!(!accounting.publications()["n"].is_done());
    }
}
