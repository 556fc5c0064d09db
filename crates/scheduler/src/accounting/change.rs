//! How a change of a pod or a node reaches the sums, and which nodes it wakes.

use std::sync::Arc;

use super::Accounting;
use super::node::NodeEntry;
use super::pod::{PodEntry, Usage};
use super::subnet::{Balance, Share, SubnetEntry};

impl Accounting {
    pub(super) fn put_pod(&mut self, uid: &str, next: PodEntry) {
        let (node, usage) = (next.place.node().cloned(), next.usage());
        let before = match self.pods.get_mut(uid) {
            Some(entry) => std::mem::replace(entry, next),
            None => {
                self.pods.insert(uid.into(), next);
                PodEntry::default()
            }
        };
        let (node_before, usage_before) = (before.place.node().cloned(), before.usage());
        if node_before == node {
            self.change_usage(node, usage_before, usage);
        } else {
            // The new node first: the pod already counts there when the old node is woken.
            self.change_usage(node, Usage::default(), usage);
            self.change_usage(node_before, usage_before, Usage::default());
        }
    }

    pub(super) fn change_usage(&mut self, node: Option<Arc<str>>, before: Usage, after: Usage) {
        let Some(node) = node.filter(|_| before != after) else {
            return;
        };
        self.change(&node, |entry| {
            entry.used = entry.used - before.used + after.used;
            entry.asking = entry.asking - before.asking + after.asking;
            entry.asked = entry.asked - before.asked + after.asked;
        });
    }

    /// Every change of a node goes through here: its share leaves the sums before and joins them
    /// again after.
    pub(super) fn change(&mut self, name: &str, change: impl FnOnce(&mut NodeEntry)) {
        let (index, key) = match self.nodes.get_full(name) {
            Some((index, key, _)) => (index, key.clone()),
            None => {
                let key: Arc<str> = name.into();
                let (index, _) = self.nodes.insert_full(key.clone(), NodeEntry::default());
                (index, key)
            }
        };
        // The rules may change below; a node without addresses has no share under either.
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
        let (refused, is_unused) = (entry.refused, entry.is_unused());
        if entry.settles_at.is_some() {
            self.settling.insert(key.clone());
        } else {
            self.settling.swap_remove(&key);
        }
        let before = self.balance(next_home.as_deref());
        self.remove_share(home.as_deref(), share, &key, home != next_home);
        self.add_share(
            next_home.as_deref(),
            next_share,
            refused.then_some(&key),
            home != next_home,
        );
        let grew = wakes(before, self.balance(next_home.as_deref()));
        if is_unused {
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

    fn remove_share(&mut self, subnet: Option<&str>, share: Share, node: &str, moved: bool) {
        let Some(name) = subnet else {
            return self.alone.subtract(share);
        };
        let Some(entry) = self.subnets.get_mut(name) else {
            return;
        };
        entry.sum.subtract(share);
        if moved {
            entry.nodes -= 1;
            entry.refused.swap_remove(node);
            if entry.is_unused() {
                self.subnets.swap_remove(name);
            }
        }
    }

    fn add_share(
        &mut self,
        subnet: Option<&str>,
        share: Share,
        refused: Option<&Arc<str>>,
        moved: bool,
    ) {
        let Some(name) = subnet else {
            return self.alone.add(share);
        };
        let entry = self.subnets.entry(name.into()).or_default();
        entry.sum.add(share);
        if moved {
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

    /// The subnet has addresses again: wakes each of its nodes that waits and may have more.
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

/// Whether waiting nodes may have room now. A node with spare addresses also waits when the subnet
/// has no room at all: pods of other nodes need what it has.
pub(super) fn wakes(before: Balance, after: Balance) -> bool {
    after.pool > 0 || (before.room == 0 && after.room > 0)
}
