//! Who waits for an address of a subnet, in the order in which they came. Pure: what there is, is told.
//!
//! Nobody is passed by: as long as others wait before it, a node does not ask. Those at the front are called together, as many as what is
//! there is enough for: then it does not matter which of them the ledger serves first.
//!
//! What is there was counted a moment ago, and may be too much or too little. So it only says how many to call at once; whether there is anything
//! for the first of them, that one finds out by asking, once each time that something has come free.

use std::collections::{BTreeMap, VecDeque};

#[derive(Debug, Default)]
pub struct Lines {
    by_subnet: BTreeMap<String, VecDeque<Waiter>>,
}

#[derive(Debug)]
struct Waiter {
    node: String,
    /// How many leases it still needs.
    missing: usize,
    /// It has been told to ask, when so often something had come free.
    called: Option<u64>,
    /// It has asked since, and went away with less than it needs.
    asked: Option<u64>,
}

impl Lines {
    /// Whether what is there now is for this node: nobody waits before it, or it has been called.
    pub fn may_ask(&self, subnet: &str, node: &str) -> bool {
        let Some(line) = self.by_subnet.get(subnet) else {
            return true;
        };
        match line.iter().position(|waiter| waiter.node == node) {
            Some(at) => at == 0 || line.get(at).is_some_and(|waiter| waiter.called.is_some()),
            None => false,
        }
    }

    /// It went away with less than it needs. It keeps its place, or gets the last one. Gives what it missed before.
    pub fn join(&mut self, subnet: &str, node: &str, missing: usize) -> Option<usize> {
        let line = self.by_subnet.entry(subnet.to_owned()).or_default();
        if let Some(waiter) = line.iter_mut().find(|waiter| waiter.node == node) {
            waiter.asked = waiter.called.take().or(waiter.asked);
            return Some(std::mem::replace(&mut waiter.missing, missing));
        }
        line.push_back(Waiter {
            node: node.to_owned(),
            missing,
            called: None,
            asked: None,
        });
        None
    }

    /// It has what it needs, or does not need it any more. Whether it was there.
    pub fn leave(&mut self, subnet: &str, node: &str) -> bool {
        let Some(line) = self.by_subnet.get_mut(subnet) else {
            return false;
        };
        let before = line.len();
        line.retain(|waiter| waiter.node != node);
        let was_there = line.len() < before;
        if line.is_empty() {
            self.by_subnet.remove(subnet);
        }
        was_there
    }

    /// The subnets whose lines the node is in.
    pub fn of_node(&self, node: &str) -> Vec<String> {
        let waits = |line: &VecDeque<Waiter>| line.iter().any(|waiter| waiter.node == node);
        let lines = self.by_subnet.iter().filter(|(_, line)| waits(line));
        lines.map(|(subnet, _)| subnet.clone()).collect()
    }

    /// Those who are to ask, now that about so many are there and that so often something has come free.
    pub fn call(&mut self, subnet: &str, available: u128, freed: u64) -> Vec<String> {
        let mut left = available.max(1);
        let mut called = Vec::new();
        for waiter in self.by_subnet.get_mut(subnet).into_iter().flatten() {
            // One that got less than it needs has left nothing for those behind it.
            if left == 0 || waiter.asked == Some(freed) {
                break;
            }
            left = left.saturating_sub(u128::try_from(waiter.missing).unwrap_or(u128::MAX));
            if waiter.called.is_none() {
                waiter.called = Some(freed);
                called.push(waiter.node.clone());
            }
        }
        called
    }

    pub fn len(&self, subnet: &str) -> usize {
        self.by_subnet.get(subnet).map_or(0, VecDeque::len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(waiters: &[(&str, usize)]) -> Lines {
        let mut lines = Lines::default();
        for (node, missing) in waiters {
            assert_eq!(lines.join("s", node, *missing), None);
        }
        lines
    }

    #[test]
    fn first_come_first_served() {
        let mut lines = line(&[("a", 1), ("b", 1), ("c", 1)]);
        assert_eq!(lines.call("s", 2, 1), ["a", "b"]);
        assert!(lines.may_ask("s", "b"));
        assert!(!lines.may_ask("s", "c"));
        // What was there is for those who were called.
        assert!(lines.call("s", 2, 1).is_empty());
        assert!(lines.leave("s", "a"));
        assert_eq!(lines.call("s", 2, 1), ["c"]);
    }

    #[test]
    fn who_comes_later_does_not_ask_before_those_who_wait() {
        let mut lines = line(&[("a", 16)]);
        assert!(!lines.may_ask("s", "new"));
        assert!(lines.may_ask("another", "new"));
        lines.leave("s", "a");
        assert!(lines.may_ask("s", "new"));
    }

    #[test]
    fn who_gets_less_than_it_needs_keeps_its_place_and_asks_once_each_time_that_something_comes_free() {
        let mut lines = line(&[("a", 16), ("b", 1)]);
        assert_eq!(lines.call("s", 3, 1), ["a"]);
        assert_eq!(lines.join("s", "a", 13), Some(16));
        // Also when what was counted is not true any more.
        assert!(lines.call("s", 14, 1).is_empty());
        assert_eq!(lines.call("s", 14, 2), ["a", "b"]);
    }

    #[test]
    fn a_count_that_is_behind_keeps_nobody_from_asking() {
        let mut lines = line(&[("a", 1), ("b", 1)]);
        assert_eq!(lines.call("s", 0, 1), ["a"]);
        lines.leave("s", "a");
        assert_eq!(lines.call("s", 0, 1), ["b"]);
        lines.join("s", "b", 1);
        assert!(lines.call("s", 0, 1).is_empty());
        assert_eq!(lines.call("s", 0, 2), ["b"]);
    }

    #[test]
    fn an_empty_line_is_forgotten() {
        let mut lines = line(&[("a", 1)]);
        assert_eq!((lines.len("s"), lines.of_node("a")), (1, vec!["s".to_owned()]));
        lines.leave("s", "a");
        assert_eq!((lines.len("s"), lines.by_subnet.len()), (0, 0));
        assert!(!lines.leave("s", "a"));
    }
}
