//! The time in which a node's addresses are not known yet. Pure: the time is a parameter.
//!
//! A kubelet creates a deleted Node again, and the Node is Ready before it has its podCIDR or
//! NodeNetworkConfig; a deleted NodeNetworkConfig is created again, too. Until then `--no-cidr
//! pass` would let every pod in. So in a cluster that gives nodes addresses, a node that had some,
//! or whose pods were there before it, waits for a while and takes no pod. The resource mode waits
//! for every new node: it cannot take back what it published.

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use super::Accounting;
use super::node::NodeEntry;
use super::rules::Rules;

/// A node without addresses after this time never gets any: a virtual kubelet, for example.
const SETTLES_WITHIN: SignedDuration = SignedDuration::from_secs(30);

/// The state of a node before a change, as far as settling depends on it.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    is_there: bool,
    has_source: bool,
}

impl NodeEntry {
    pub fn before(&self) -> Before {
        Before {
            is_there: self.node.is_some(),
            has_source: self.has_source(),
        }
    }

    /// Begins or ends the settling of the node after a change.
    pub fn settle(&mut self, before: Before, now: Timestamp) {
        let Some(node) = self.node.filter(|_| !self.has_source()) else {
            self.settles_at = None;
            self.waits = false;
            return;
        };
        if before.is_there && before.has_source {
            self.settles_at = Some(now + SETTLES_WITHIN);
            self.waits = true;
        } else if !before.is_there {
            // A clock ahead of ours may put the creation into the future.
            let settles_at = node.created.map(|created| created.min(now) + SETTLES_WITHIN);
            self.settles_at = settles_at.filter(|at| *at > now);
            self.waits = self.settles_at.is_some() && self.used > 0;
        } else if self.settles_at.is_none() {
            self.waits = false;
        }
    }
}

impl Accounting {
    pub(super) fn rules(&self) -> Rules {
        Rules {
            no_cidr: self.settings.no_cidr,
            gives_addresses: self.gives_addresses,
        }
    }

    /// Whether time alone will change something.
    pub fn has_settling(&self) -> bool {
        !self.settling.is_empty()
    }

    /// Sets the time: before anything is applied, and regularly while a node settles.
    pub fn advance(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
        let nodes = &self.nodes;
        let is_over = |name: &Arc<str>| {
            let at = nodes.get(name).and_then(|entry| entry.settles_at);
            at.is_none_or(|at| at <= now)
        };
        let over: Vec<Arc<str>> =
            self.settling.iter().filter(|name| is_over(name)).cloned().collect();
        for name in over {
            self.change(&name, |entry| entry.settles_at = None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accounting::tests::{bound, cidr, leases};
    use crate::accounting::{NoCidr, Refusal, Settings};
    use crate::facts::NodeFacts;

    const NOW: Timestamp = Timestamp::constant(1_000_000, 0);

    fn later(seconds: i64) -> Timestamp {
        NOW + SignedDuration::from_secs(seconds)
    }

    /// Without a podCIDR.
    fn made(seconds: i64) -> NodeFacts {
        NodeFacts {
            created: Some(later(seconds)),
            ..NodeFacts::default()
        }
    }

    fn at_now() -> Accounting {
        let mut accounting = Accounting::default();
        accounting.advance(NOW);
        accounting
    }

    /// What `kubectl delete node` leads to.
    #[test]
    fn a_node_that_is_recreated_takes_no_pod_before_its_pod_cidr() {
        let mut accounting = at_now();
        accounting.apply_node("n", cidr(2));
        accounting.apply_pod("a", &bound("n"));
        accounting.apply_pod("b", &bound("n"));
        accounting.delete_node("n");
        accounting.apply_node("n", made(0));
        assert_eq!(accounting.reserve("c", true, "n"), Err(Refusal::NoPodCidr));
        accounting.apply_node("n", cidr(2));
        assert_eq!(accounting.free("n", "c"), Err(Refusal::PodCidrFull));
        accounting.delete_pod("a");
        assert_eq!(accounting.free("n", "c"), Ok(1));
    }

    /// A watch that starts again sends only the new Node.
    #[test]
    fn the_same_holds_when_nobody_saw_the_node_go() {
        let mut accounting = at_now();
        accounting.apply_node("n", cidr(2));
        accounting.apply_node("n", made(0));
        assert_eq!(accounting.free("n", "c"), Err(Refusal::NoPodCidr));
    }

    #[test]
    fn a_node_whose_config_is_deleted_waits_for_the_next_one() {
        let mut accounting = at_now();
        accounting.apply_node("n", made(-9_000));
        accounting.apply_nnc("n", leases(4, 250));
        accounting.delete_nnc("n");
        assert_eq!(accounting.free("n", "c"), Err(Refusal::NoPodCidr));
        accounting.apply_nnc("n", leases(4, 250));
        assert_eq!(accounting.free("n", "c"), Ok(4));
    }

    #[test]
    fn a_node_that_is_given_none_in_time_passes_and_is_woken() {
        let mut accounting = at_now();
        accounting.apply_node("other", cidr(2));
        accounting.apply_pod("a", &bound("virtual"));
        accounting.apply_node("virtual", made(-10));
        assert_eq!(accounting.free("virtual", "c"), Err(Refusal::NoPodCidr));
        accounting.refused("virtual");
        accounting.advance(later(19));
        assert_eq!(accounting.free("virtual", "c"), Err(Refusal::NoPodCidr));
        assert!(accounting.has_settling() && !accounting.has_woken());
        accounting.advance(later(20));
        assert_eq!(accounting.free("virtual", "c"), Ok(u64::MAX));
        assert_eq!(accounting.take_woken(), [Arc::<str>::from("virtual")]);
        assert!(!accounting.has_settling());
    }

    /// As `--no-cidr pass` says: no sign shows that it will be given addresses.
    #[test]
    fn a_new_node_without_pods_passes_at_once() {
        let mut accounting = at_now();
        accounting.apply_node("other", cidr(2));
        accounting.apply_node("new", made(0));
        assert_eq!(accounting.free("new", "c"), Ok(u64::MAX));
        accounting.apply_pod("a", &bound("new"));
        assert_eq!(accounting.free("new", "c"), Ok(u64::MAX));
    }

    #[test]
    fn a_cluster_that_gives_nodes_nothing_waits_for_nothing() {
        let mut accounting = at_now();
        accounting.apply_node("a", made(0));
        accounting.apply_node("b", made(0));
        assert_eq!(accounting.free("a", "c"), Ok(u64::MAX));
        assert_eq!(accounting.free("b", "c"), Ok(u64::MAX));
    }

    #[test]
    fn an_old_node_without_any_passes_from_the_start() {
        let mut accounting = at_now();
        accounting.apply_node("other", cidr(2));
        accounting.apply_node("virtual", made(-31));
        assert_eq!(accounting.free("virtual", "c"), Ok(u64::MAX));
        assert!(!accounting.has_settling());
    }

    #[test]
    fn a_clock_that_is_behind_makes_nobody_wait_for_longer() {
        let mut accounting = at_now();
        accounting.apply_node("other", cidr(2));
        accounting.apply_node("virtual", made(9_000));
        accounting.advance(later(30));
        assert_eq!(accounting.free("virtual", "c"), Ok(u64::MAX));
    }

    #[test]
    fn with_fail_time_changes_nothing() {
        let mut accounting = Accounting::new(Settings {
            no_cidr: NoCidr::Fail,
            ..Settings::default()
        });
        accounting.advance(NOW);
        accounting.apply_node("n", made(0));
        accounting.advance(later(60));
        assert_eq!(accounting.free("n", "c"), Err(Refusal::NoPodCidr));
    }
}
