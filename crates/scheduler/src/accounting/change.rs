//! How a change of a pod or a node gets into the sums, and who is woken by it.

use std::sync::Arc;

use super::Accounting;
use super::node::NodeEntry;
use super::pod::{PodEntry, Weight};
use super::subnet::{Balance, Share, SubnetEntry};

impl Accounting {
    pub(super) fn put_pod(&mut self, uid: &str, next: PodEntry) {
        let (node, weight) = (next.place.node().cloned(), next.weight());
        let before = match self.pods.get_mut(uid) {
            Some(entry) => std::mem::replace(entry, next),
            None => {
                self.pods.insert(uid.into(), next);
                PodEntry::default()
            }
        };
        let (node_before, weight_before) = (before.place.node().cloned(), before.weight());
        if node_before == node {
            self.weigh(node, weight_before, weight);
        } else {
            // First where it goes to: so that whoever waits is woken after it counts.
            self.weigh(node, Weight::default(), weight);
            self.weigh(node_before, weight_before, Weight::default());
        }
    }

    pub(super) fn weigh(&mut self, node: Option<Arc<str>>, before: Weight, after: Weight) {
        let Some(node) = node.filter(|_| before != after) else {
            return;
        };
        self.change(&node, |entry| {
            entry.used = entry.used - before.used + after.used;
            entry.asking = entry.asking - before.asking + after.asking;
            entry.asked = entry.asked - before.asked + after.asked;
        });
    }

    /// Every change of a node goes through here: its part of the sums is taken out before and put
    /// back after.
    pub(super) fn change(&mut self, name: &str, change: impl FnOnce(&mut NodeEntry)) {
        let (index, key) = match self.nodes.get_full(name) {
            Some((index, key, _)) => (index, key.clone()),
            None => {
                let key: Arc<str> = name.into();
                let (index, _) = self.nodes.insert_full(key.clone(), NodeEntry::default());
                (index, key)
            }
        };
        // A node without addresses has no part in the sums, whichever way it is judged.
        let rules = self.rules();
        let Some((_, entry)) = self.nodes.get_index_mut(index) else {
            return;
        };
        let home = entry.subnet().map(str::to_owned);
        let (share, before) = (entry.share(rules), entry.before());
        change(entry);
        entry.settle(before, self.now);
        self.gives_addresses |= entry.has_source();
        let (next_home, next_share) = (entry.subnet().map(str::to_owned), entry.share(rules));
        let (refused, is_forgotten) = (entry.refused, entry.is_forgotten());
        if entry.settles_at.is_some() {
            self.settling.insert(key.clone());
        } else {
            self.settling.swap_remove(&key);
        }
        let before = self.balance(next_home.as_deref());
        self.leave(home.as_deref(), share, &key, home != next_home);
        self.join(
            next_home.as_deref(),
            next_share,
            refused.then_some(&key),
            home != next_home,
        );
        let grew = wakes(before, self.balance(next_home.as_deref()));
        if is_forgotten {
            self.nodes.swap_remove(&key);
            return;
        }
        if refused
            && matches!(
                self.nodes.get(&key).map(|entry| self.free_at(entry, false)),
                Some(Ok(_))
            )
        {
            self.wake(&key);
        }
        if grew && let Some(subnet) = next_home {
            self.wake_subnet(&subnet);
        }
    }

    fn balance(&self, subnet: Option<&str>) -> Balance {
        let entry = subnet.and_then(|name| self.subnets.get(name));
        entry.map(SubnetEntry::balance).unwrap_or_default()
    }

    fn leave(&mut self, subnet: Option<&str>, share: Share, node: &str, for_good: bool) {
        let Some(name) = subnet else {
            return self.alone.subtract(share);
        };
        let Some(entry) = self.subnets.get_mut(name) else {
            return;
        };
        entry.sum.subtract(share);
        if for_good {
            entry.nodes -= 1;
            entry.refused.swap_remove(node);
            if entry.is_forgotten() {
                self.subnets.swap_remove(name);
            }
        }
    }

    fn join(&mut self, subnet: Option<&str>, share: Share, refused: Option<&Arc<str>>, anew: bool) {
        let Some(name) = subnet else {
            return self.alone.add(share);
        };
        let entry = self.subnets.entry(name.into()).or_default();
        entry.sum.add(share);
        if anew {
            entry.nodes += 1;
            entry.refused.extend(refused.cloned());
        }
    }

    fn wake(&mut self, node: &Arc<str>) {
        let Some(entry) = self.nodes.get_mut(node) else {
            return;
        };
        entry.refused = false;
        if let Some(subnet) = entry.subnet()
            && let Some(subnet) = self.subnets.get_mut(subnet)
        {
            subnet.refused.swap_remove(node);
        }
        self.woken.insert(node.clone());
    }

    /// It can give something: each node of it that waits and may have more.
    pub(super) fn wake_subnet(&mut self, subnet: &str) {
        let refused = self.subnets.get(subnet).map(|entry| entry.refused.clone());
        for node in refused.into_iter().flatten() {
            let free = self.nodes.get(&node).map(|entry| self.free_at(entry, false));
            if matches!(free, Some(Ok(_))) {
                self.wake(&node);
            }
        }
    }
}

/// Whether nodes that wait may have room now. Those that have addresses to spare waited for others'
/// pods, as long as there was no room at all.
pub(super) fn wakes(before: Balance, after: Balance) -> bool {
    after.pool > 0 || (before.room == 0 && after.room > 0)
}
