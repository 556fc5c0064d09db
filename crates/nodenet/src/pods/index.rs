//! What the watch of Pods has reported. Plain data: fed by `apply`, `delete` and the watch's start
//! over.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use berth_addr::Prefix;
use berth_api::ObservedPod;
use tokio::time::Instant;

/// Namespace and name, with a slash between them.
type Key = Arc<str>;

/// Addresses of pods that are gone are remembered for the grace period of nodes, but no more of
/// them than this. Beyond it, no address counts as unused for long.
const MAX_REMEMBERED: usize = 65_536;

/// A pod that shows an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedAddress {
    pub pod: String,
    pub node: String,
    pub address: IpAddr,
    /// The pod's first address: its lease is named after it.
    pub first: IpAddr,
}

#[derive(Debug)]
struct Known {
    node: Key,
    addresses: Vec<IpAddr>,
}

#[derive(Debug, Default)]
struct OnNode {
    pods: BTreeSet<Key>,
    /// Pods that need an address and show none yet.
    waiting: usize,
}

#[derive(Debug)]
pub struct PodIndex {
    pods: BTreeMap<Key, Known>,
    by_node: BTreeMap<Key, OnNode>,
    /// More than one pod only while two pods have the same address: a set for each address would
    /// cost many times as much.
    by_address: BTreeMap<IpAddr, Vec<Key>>,
    /// Addresses that no pod shows any more, and when one last did.
    remembered: BTreeMap<IpAddr, Instant>,
    /// What pods showed before this is not known.
    since: Instant,
}

impl PodIndex {
    pub fn new(now: Instant) -> Self {
        Self {
            pods: BTreeMap::new(),
            by_node: BTreeMap::new(),
            by_address: BTreeMap::new(),
            remembered: BTreeMap::new(),
            since: now,
        }
    }

    /// Returns the addresses that this pod no longer shows.
    pub fn apply(&mut self, key: &str, pod: &ObservedPod, now: Instant) -> Vec<IpAddr> {
        let Some(node) = pod.node().filter(|_| pod.needs_address()) else {
            return self.delete(key, now);
        };
        // The same whatever order they are shown in.
        let mut addresses: Vec<IpAddr> = pod.addresses().collect();
        addresses.sort_unstable();
        addresses.dedup();
        let same = |known: &Known| *known.node == *node && known.addresses == addresses;
        if self.pods.get(key).is_some_and(same) {
            return Vec::new();
        }
        let mut gone = self.delete(key, now);
        let key: Key = key.into();
        // One string for all pods of a node.
        let node = match self.by_node.get_key_value(node) {
            Some((known, _)) => Arc::clone(known),
            None => node.into(),
        };
        let on_node = self.by_node.entry(Arc::clone(&node)).or_default();
        on_node.pods.insert(Arc::clone(&key));
        on_node.waiting += usize::from(addresses.is_empty());
        for address in &addresses {
            self.by_address
                .entry(*address)
                .or_insert_with(|| Vec::with_capacity(1))
                .push(Arc::clone(&key));
            self.remembered.remove(address);
        }
        gone.retain(|address| !addresses.contains(address));
        self.pods.insert(key, Known { node, addresses });
        gone
    }

    /// Returns the addresses that the pod showed.
    pub fn delete(&mut self, key: &str, now: Instant) -> Vec<IpAddr> {
        let Some((key, Known { node, addresses })) = self.pods.remove_entry(key) else {
            return Vec::new();
        };
        if let Some(on_node) = self.by_node.get_mut(&node) {
            on_node.pods.remove(&key);
            on_node.waiting -= usize::from(addresses.is_empty());
            if on_node.pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
        for address in &addresses {
            if let Some(keys) = self.by_address.get_mut(address) {
                keys.retain(|other| *other != key);
                if keys.is_empty() {
                    self.by_address.remove(address);
                    self.remembered.insert(*address, now);
                }
            }
        }
        addresses
    }

    /// Removes addresses that were last shown longer ago than `grace`.
    pub fn prune(&mut self, grace: Duration, now: Instant) {
        self.remembered
            .retain(|_, at| now.saturating_duration_since(*at) < grace);
        if self.remembered.len() > MAX_REMEMBERED {
            self.remembered.clear();
            self.since = now;
        }
    }

    /// Since when it is known that no pod has shown any address of this prefix; `None` while one
    /// does.
    pub fn unused_since_in(&self, unit: Prefix) -> Option<Instant> {
        let range = unit.first()..=unit.last();
        if self.by_address.range(range.clone()).next().is_some() {
            return None;
        }
        let remembered = self.remembered.range(range).map(|(_, at)| *at).max();
        Some(remembered.unwrap_or(self.since))
    }

    /// Whether a pod on the node waits for an address and shows none yet.
    pub fn has_waiting(&self, node: &str) -> bool {
        self.by_node.get(node).is_some_and(|on_node| on_node.waiting > 0)
    }

    /// How many pods on the node need an address.
    pub fn demand(&self, node: &str) -> u64 {
        let pods = self.by_node.get(node).map_or(0, |on_node| on_node.pods.len());
        u64::try_from(pods).unwrap_or(u64::MAX)
    }

    /// The pods that show this address.
    pub fn of_address(&self, address: IpAddr) -> Vec<ObservedAddress> {
        let keys = self.by_address.get(&address).into_iter().flatten();
        keys.filter_map(|key| self.observed(key, address)).collect()
    }

    /// All that pods show of a CIDR.
    pub fn in_cidr(&self, cidr: Prefix) -> Vec<ObservedAddress> {
        let within = self.by_address.range(cidr.first()..=cidr.last());
        let each = within.flat_map(|(address, keys)| keys.iter().map(move |key| (key, *address)));
        each.filter_map(|(key, address)| self.observed(key, address)).collect()
    }

    /// All that the node's pods show.
    pub fn on_node(&self, node: &str) -> Vec<ObservedAddress> {
        let pods = self.by_node.get(node).into_iter().flat_map(|on_node| &on_node.pods);
        let each = pods.flat_map(|key| {
            let known = self.pods.get(key).into_iter();
            known.flat_map(move |known| known.addresses.iter().map(move |address| (key, *address)))
        });
        each.filter_map(|(key, address)| self.observed(key, address)).collect()
    }

    fn observed(&self, key: &Key, address: IpAddr) -> Option<ObservedAddress> {
        let known = self.pods.get(key)?;
        Some(ObservedAddress {
            pod: key.to_string(),
            node: known.node.to_string(),
            address,
            first: known.addresses.first().copied().unwrap_or(address),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(node: &str, addresses: &[&str]) -> ObservedPod {
        let ips: Vec<_> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
        let pod =
            json!({"spec": {"nodeName": node}, "status": {"phase": "Running", "podIPs": ips}});
        serde_json::from_value(pod).unwrap()
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_is_in_use_until_its_last_pod_is_gone() {
        let now = Instant::now();
        let mut index = PodIndex::new(now);
        index.apply("d/a", &pod("n1", &["10.0.0.5"]), now);
        index.apply("d/b", &pod("n2", &["10.0.0.5"]), now);
        assert_eq!(index.of_address(ip("10.0.0.5")).len(), 2);
        index.delete("d/a", now);
        assert_eq!(index.unused_since_in(ip("10.0.0.5").into()), None);
        let later = now + Duration::from_secs(9);
        assert_eq!(index.delete("d/b", later), [ip("10.0.0.5")]);
        assert_eq!(index.unused_since_in(ip("10.0.0.5").into()), Some(later));
        assert_eq!(index.unused_since_in(ip("10.0.0.6").into()), Some(now));
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_without_an_address_counts_as_demand_and_waits() {
        let now = Instant::now();
        let mut index = PodIndex::new(now);
        index.apply("d/a", &pod("n1", &[]), now);
        assert!(index.has_waiting("n1"));
        index.apply("d/a", &pod("n1", &["10.0.0.5"]), now);
        assert!(!index.has_waiting("n1"));
        assert_eq!((index.demand("n1"), index.demand("n2")), (1, 0));
        let gone = index.apply("d/a", &pod("n1", &["10.0.0.6"]), now);
        assert_eq!(gone, [ip("10.0.0.5")]);
        index.delete("d/a", now);
        assert_eq!(index.demand("n1"), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn what_lies_in_a_cidr_is_found_with_its_node() {
        let now = Instant::now();
        let mut index = PodIndex::new(now);
        index.apply("d/a", &pod("n1", &["10.0.0.5", "fd00::5"]), now);
        index.apply("d/b", &pod("n1", &["10.1.0.5"]), now);
        let found = index.in_cidr("10.0.0.0/16".parse().unwrap());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].node.as_str(), found[0].pod.as_str()), ("n1", "d/a"));
        let v6 = index.in_cidr("fd00::/64".parse().unwrap());
        assert_eq!(v6[0].first, ip("10.0.0.5"));
        assert_eq!(index.on_node("n1").len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_observed_long_ago_is_forgotten() {
        let now = Instant::now();
        let mut index = PodIndex::new(now);
        index.apply("d/a", &pod("n1", &["10.0.0.5"]), now);
        let later = now + Duration::from_secs(60);
        index.delete("d/a", later);
        index.prune(Duration::from_secs(120), later + Duration::from_secs(119));
        assert_eq!(index.unused_since_in(ip("10.0.0.5").into()), Some(later));
        index.prune(Duration::from_secs(120), later + Duration::from_secs(120));
        assert_eq!(index.unused_since_in(ip("10.0.0.5").into()), Some(now));
    }
}
