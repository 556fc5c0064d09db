//! Which nodes wait for an address of a subnet, and which of them is next. Pure: the counts are
//! passed in.
//!
//! Nodes that can't be used yet come before nodes that ask for more than they have: one of the
//! latter may ask for so many that nothing would ever be left for a node that needs a single one.
//! Equals are served in the order in which they came, and none is passed by: a node does not ask
//! while others wait before it. As many nodes at the front are woken together as the free addresses
//! are enough for. So it does not matter which of them the ledger serves first.
//!
//! The count of free addresses is a moment old, and may be too high or too low. So it only says how
//! many to wake at once. The first of them finds out by asking whether there is anything for it,
//! once each time that something has come free.

use std::collections::{BTreeMap, VecDeque};

/// What a node waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Its container, or its podCIDR: without it the node can't be used at all.
    Start,
    /// This many leases, beside those that it has.
    More(usize),
}

impl Need {
    fn leases(self) -> usize {
        match self {
            Self::Start => 1,
            Self::More(count) => count,
        }
    }

    /// Whether a node with this need goes behind one that needs `other` and came at the same time.
    fn yields_to(self, other: Self) -> bool {
        matches!((self, other), (Self::More(_), Self::Start))
    }

    /// Whether both needs are equals, so that the first to come is served first.
    fn is_like(self, other: Self) -> bool {
        !self.yields_to(other) && !other.yields_to(self)
    }
}

#[derive(Debug, Default)]
pub struct Waiting {
    /// Each in the order in which its waiters are served.
    by_subnet: BTreeMap<String, VecDeque<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    node: String,
    need: Need,
    /// The node has been woken, when addresses had come free this often.
    woken: Option<u64>,
    /// The node has asked after that wake-up, and got less than it needs.
    asked: Option<u64>,
}

impl Waiter {
    fn is(&self, node: &str, need: Need) -> bool {
        self.node == node && self.need.is_like(need)
    }
}

impl Waiting {
    /// Whether this node may ask now: no other waits before it, or it has been woken.
    pub fn is_next(&self, subnet: &str, node: &str, need: Need) -> bool {
        let Some(waiters) = self.by_subnet.get(subnet) else {
            return true;
        };
        let before = |waiter: &Waiter| waiter.node != node && !waiter.need.yields_to(need);
        let woken = waiters
            .iter()
            .any(|waiter| waiter.is(node, need) && waiter.woken.is_some());
        woken || !waiters.iter().take_while(|waiter| !waiter.is(node, need)).any(before)
    }

    /// The node got less than it needs. It keeps its place, or gets the last one among its equals.
    /// Returns what it needed before.
    pub fn join(&mut self, subnet: &str, node: &str, need: Need) -> Option<Need> {
        let waiters = self.by_subnet.entry(subnet.to_owned()).or_default();
        if let Some(waiter) = waiters.iter_mut().find(|waiter| waiter.is(node, need)) {
            waiter.asked = waiter.woken.take().or(waiter.asked);
            return Some(std::mem::replace(&mut waiter.need, need));
        }
        let at = waiters.iter().position(|waiter| waiter.node == node);
        let before = at.and_then(|at| waiters.remove(at));
        let place = waiters.partition_point(|waiter| !waiter.need.yields_to(need));
        let waiter = Waiter {
            node: node.to_owned(),
            need,
            woken: None,
            asked: None,
        };
        waiters.insert(place, waiter);
        before.map(|before| before.need)
    }

    /// The node has what it needs, or no longer needs it. Returns whether it waited.
    pub fn leave(&mut self, subnet: &str, node: &str) -> bool {
        let Some(waiters) = self.by_subnet.get_mut(subnet) else {
            return false;
        };
        let before = waiters.len();
        waiters.retain(|waiter| waiter.node != node);
        let was_there = waiters.len() < before;
        if waiters.is_empty() {
            self.by_subnet.remove(subnet);
        }
        was_there
    }

    /// The subnets that the node waits for.
    pub fn of_node(&self, node: &str) -> Vec<String> {
        let waits = |waiters: &VecDeque<Waiter>| waiters.iter().any(|waiter| waiter.node == node);
        let waiting = self.by_subnet.iter().filter(|(_, waiters)| waits(waiters));
        waiting.map(|(subnet, _)| subnet.clone()).collect()
    }

    /// Returns the nodes that are to ask now: about `available` leases are free, and addresses have
    /// come free `freed` times.
    pub fn wake(&mut self, subnet: &str, available: u128, freed: u64) -> Vec<String> {
        let mut left = available.max(1);
        let mut woken = Vec::new();
        for waiter in self.by_subnet.get_mut(subnet).into_iter().flatten() {
            // A node that got less than it needs has left nothing for those behind it.
            if left == 0 || waiter.asked == Some(freed) {
                break;
            }
            left = left.saturating_sub(u128::try_from(waiter.need.leases()).unwrap_or(u128::MAX));
            if waiter.woken.is_none() {
                waiter.woken = Some(freed);
                woken.push(waiter.node.clone());
            }
        }
        woken
    }

    pub fn len(&self, subnet: &str) -> usize {
        self.by_subnet.get(subnet).map_or(0, VecDeque::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(waiters: &[(&str, Need)]) -> Waiting {
        let mut waiting = Waiting::default();
        for (node, need) in waiters {
            assert_eq!(waiting.join("s", node, *need), None);
        }
        waiting
    }

    #[test]
    fn first_come_first_served() {
        let mut waiting = waiting(&[("a", Need::Start), ("b", Need::Start), ("c", Need::Start)]);
        assert_eq!(waiting.wake("s", 2, 1), ["a", "b"]);
        assert!(waiting.is_next("s", "b", Need::Start));
        assert!(!waiting.is_next("s", "c", Need::Start));
        // What was there is for those who were woken.
        assert!(waiting.wake("s", 2, 1).is_empty());
        assert!(waiting.leave("s", "a"));
        assert_eq!(waiting.wake("s", 2, 1), ["c"]);
    }

    #[test]
    fn who_comes_later_does_not_ask_before_those_who_wait() {
        let mut waiting = waiting(&[("a", Need::More(16))]);
        assert!(!waiting.is_next("s", "new", Need::More(1)));
        assert!(waiting.is_next("another", "new", Need::More(1)));
        waiting.leave("s", "a");
        assert!(waiting.is_next("s", "new", Need::More(1)));
    }

    #[test]
    fn a_node_without_addresses_precedes_requests_for_more() {
        let mut waiting = waiting(&[("a", Need::More(16)), ("b", Need::More(16))]);
        assert!(waiting.is_next("s", "new", Need::Start));
        waiting.join("s", "new", Need::Start);
        waiting.join("s", "newer", Need::Start);
        assert!(!waiting.is_next("s", "newest", Need::Start));
        assert!(!waiting.is_next("s", "a", Need::More(16)));
        assert_eq!(waiting.wake("s", 3, 1), ["new", "newer", "a"]);
    }

    #[test]
    fn a_node_that_loses_its_container_takes_another_place() {
        let mut waiting =
            waiting(&[("a", Need::More(4)), ("b", Need::Start), ("c", Need::More(2))]);
        assert_eq!(waiting.join("s", "c", Need::Start), Some(Need::More(2)));
        assert_eq!(
            (waiting.len("s"), waiting.wake("s", 2, 1)),
            (3, vec!["b".to_owned(), "c".to_owned()])
        );
    }

    #[test]
    fn who_gets_less_keeps_its_place_and_asks_once_each_time() {
        let mut waiting = waiting(&[("a", Need::More(16)), ("b", Need::More(1))]);
        assert_eq!(waiting.wake("s", 3, 1), ["a"]);
        assert_eq!(waiting.join("s", "a", Need::More(13)), Some(Need::More(16)));
        // Also when what was counted is not true any more.
        assert!(waiting.wake("s", 14, 1).is_empty());
        assert_eq!(waiting.wake("s", 14, 2), ["a", "b"]);
    }

    #[test]
    fn a_count_that_is_behind_keeps_nobody_from_asking() {
        let mut waiting = waiting(&[("a", Need::Start), ("b", Need::Start)]);
        assert_eq!(waiting.wake("s", 0, 1), ["a"]);
        waiting.leave("s", "a");
        assert_eq!(waiting.wake("s", 0, 1), ["b"]);
        waiting.join("s", "b", Need::Start);
        assert!(waiting.wake("s", 0, 1).is_empty());
        assert_eq!(waiting.wake("s", 0, 2), ["b"]);
    }

    #[test]
    fn a_subnet_that_nobody_waits_for_is_forgotten() {
        let mut waiting = waiting(&[("a", Need::Start)]);
        assert_eq!((waiting.len("s"), waiting.of_node("a")), (1, vec!["s".to_owned()]));
        waiting.leave("s", "a");
        assert_eq!((waiting.len("s"), waiting.by_subnet.len()), (0, 0));
        assert!(!waiting.leave("s", "a"));
    }
}
