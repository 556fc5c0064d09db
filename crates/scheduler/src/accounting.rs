//! Which node has an IP for one more pod. Pure: no clock, no client.
//!
//! Watches feed it (`apply_x`, `delete_x`), and so do bindings (`reserve`, `release`). A pod counts
//! once, by its UID, at one node at most: where it is bound, else where it is being bound, else
//! where it is nominated. So the check and the reservation of a binding are one step, and no two
//! pods can have the last IP of a node.
//!
//! An event costs the same however many nodes and pods there are, and so does the check of one
//! node: the sums over the nodes of a subnet are kept up to date.

mod change;
mod level;
mod node;
mod pod;
mod publish;
mod refusal;
mod rules;
mod settle;
mod subnet;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use jiff::Timestamp;

use crate::facts::{NncFacts, NodeFacts, PodFacts, SubnetFacts};
use change::wakes;
use node::NodeEntry;
use pod::{Place, PodEntry, Usage};
use subnet::{Share, SubnetEntry, saturated};

pub use node::Supply;
pub use publish::Publication;
pub use refusal::Refusal;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Addresses of each podCIDR that no pod gets.
    pub reserved_per_cidr: u64,
    pub no_cidr: NoCidr,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            reserved_per_cidr: 2,
            no_cidr: NoCidr::Pass,
        }
    }
}

/// How a node counts that has neither a podCIDR nor a NodeNetworkConfig.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NoCidr {
    /// As if it had an IP for every pod.
    #[default]
    Pass,
    /// The node takes no pod.
    Fail,
}

/// What became of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// This call made the reservation.
    Now,
    /// An earlier try of the same binding made it.
    Before,
    /// The pod is bound there.
    Bound,
}

#[derive(Debug, Default)]
pub struct Accounting {
    settings: Settings,
    nodes: IndexMap<Arc<str>, NodeEntry>,
    subnets: IndexMap<Arc<str>, SubnetEntry>,
    /// By UID.
    pods: IndexMap<Arc<str>, PodEntry>,
    /// The sum over nodes that belong to no subnet.
    alone: Share,
    /// Counts the lists of pods.
    generation: u32,
    /// Nodes that have room again, where pods wait for it.
    woken: IndexSet<Arc<str>>,
    /// Nodes that kube-scheduler asked about before the watch sent them.
    unknown: IndexSet<Arc<str>>,
    /// Where the search for a node with room goes on.
    cursor: usize,
    now: Timestamp,
    /// Some node has or had a podCIDR or a NodeNetworkConfig, or there is a Subnet for pods.
    gives_addresses: bool,
    /// Nodes that may be given addresses, but have none yet.
    settling: IndexSet<Arc<str>>,
}

/// A scheduler's unknown names must not fill the memory.
const MAX_UNKNOWN: usize = 1024;

impl Accounting {
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            ..Self::default()
        }
    }

    pub fn settings(&self) -> Settings {
        self.settings
    }

    pub fn apply_node(&mut self, name: &str, facts: NodeFacts) {
        let before = self.nodes.get(name).and_then(|entry| entry.node.as_ref());
        if before != Some(&facts) {
            let was_refused = self.unknown.swap_remove(name);
            self.change(name, |entry| {
                entry.node = Some(facts);
                entry.refused |= was_refused;
            });
        }
    }

    pub fn delete_node(&mut self, name: &str) {
        self.change(name, |entry| entry.node = None);
    }

    pub fn apply_nnc(&mut self, name: &str, facts: NncFacts) {
        let before = self.nodes.get(name).and_then(|entry| entry.nnc.as_ref());
        if before != Some(&facts) {
            self.change(name, |entry| entry.nnc = Some(facts));
        }
    }

    pub fn delete_nnc(&mut self, name: &str) {
        self.change(name, |entry| entry.nnc = None);
    }

    /// `None`: the Subnet is not for pods, or is deleted.
    pub fn apply_subnet(&mut self, name: &str, facts: Option<SubnetFacts>) {
        let entry = match self.subnets.get_mut(name) {
            Some(entry) => entry,
            None if facts.is_none() => return,
            None => self.subnets.entry(name.into()).or_default(),
        };
        let before = entry.balance();
        entry.facts = facts;
        let after = entry.balance();
        self.gives_addresses |= facts.is_some();
        if wakes(before, after) {
            self.wake_subnet(name);
        }
        if self.subnets.get(name).is_some_and(SubnetEntry::is_unused) {
            self.subnets.swap_remove(name);
        }
    }

    pub fn apply_pod(&mut self, uid: &str, facts: &PodFacts) {
        let known = self.pods.get(uid);
        let confirmed = known.and_then(|pod| pod.confirmed);
        // A list that began after the answer to the binding is newer than the binding.
        let is_older = confirmed.is_none_or(|generation| generation == self.generation);
        let place = match (&facts.node, known.map(|pod| &pod.place)) {
            (Some(node), _) => Place::Bound(self.interned(node)),
            // The event is older than the binding: the bound pod is still to come.
            (None, Some(reserved @ Place::Reserved(_))) if is_older => reserved.clone(),
            (None, _) => match &facts.nominated {
                Some(node) => Place::Nominated(self.interned(node)),
                None => Place::Nowhere,
            },
        };
        let next = PodEntry {
            needs_ip: facts.needs_ip,
            asks: facts.asks,
            confirmed: confirmed.filter(|_| matches!(place, Place::Reserved(_))),
            place,
            generation: self.generation,
        };
        self.put_pod(uid, next);
    }

    pub fn delete_pod(&mut self, uid: &str) {
        if let Some(gone) = self.pods.swap_remove(uid) {
            self.change_usage(gone.place.node().cloned(), gone.usage(), Usage::default());
        }
    }

    /// A new list of all pods begins.
    pub fn begin_pods(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    /// The list is complete: pods that were not in it are gone. A pod that was reserved meanwhile
    /// may be younger than the list, and stays.
    pub fn end_pods(&mut self) {
        let current = self.generation;
        let gone = self.pods.iter().filter(|(_, pod)| pod.generation != current);
        let gone: Vec<Arc<str>> = gone.map(|(uid, _)| uid.clone()).collect();
        gone.iter().for_each(|uid| self.delete_pod(uid));
    }

    /// Whether a pod needs an IP, if the pod is known.
    pub fn needs_ip(&self, uid: &str) -> Option<bool> {
        self.pods.get(uid).map(|pod| pod.needs_ip)
    }

    /// How many more pods the node has an IP for, never 0. The pod itself does not count.
    pub fn free(&self, node: &str, uid: &str) -> Result<u64, Refusal> {
        self.free_beside(node, self.counted_at(uid))
    }

    /// Where the pod counts by now, if anywhere.
    pub fn counted_at(&self, uid: &str) -> Option<&Arc<str>> {
        let pod = self.pods.get(uid).filter(|pod| pod.needs_ip)?;
        pod.place.node()
    }

    /// Like `free`, for a caller that asks about many nodes and has looked up `own`, the node where
    /// the pod counts, once.
    pub fn free_beside(&self, node: &str, own: Option<&Arc<str>>) -> Result<u64, Refusal> {
        let (name, entry) = self.nodes.get_key_value(node).ok_or(Refusal::UnknownNode)?;
        self.free_at(entry, own == Some(name))
    }

    /// Whether the node would have an IP for the pod without these victims. Addresses that come
    /// free stay with the node.
    pub fn fits_without<'a>(
        &self,
        node: &str,
        uid: &str,
        victims: impl Iterator<Item = &'a str>,
    ) -> bool {
        match self.free(node, uid) {
            Ok(_) => true,
            Err(Refusal::SubnetFull { .. } | Refusal::PodCidrFull | Refusal::MaxIpCount) => {
                let mut here = victims.filter_map(|victim| self.pods.get(victim));
                here.any(|pod| {
                    pod.needs_ip && pod.place.node().is_some_and(|there| **there == *node)
                })
            }
            Err(_) => false,
        }
    }

    /// From 0 to 10.
    pub fn score(&self, node: &str) -> u8 {
        self.nodes.get(node).map_or(0, |entry| entry.score(self.rules()))
    }

    /// A pod was refused here: when the node has room again, it is among those that are woken.
    pub fn refused(&mut self, node: &str) {
        let (name, entry) = match self.nodes.get_full_mut(node) {
            Some((_, name, entry)) => (name.clone(), entry),
            None => {
                if self.unknown.len() < MAX_UNKNOWN {
                    self.unknown.insert(node.into());
                }
                return;
            }
        };
        entry.refused = true;
        if let Some(subnet) = entry.subnet()
            && let Some(subnet) = self.subnets.get_mut(subnet)
        {
            subnet.refused.insert(name);
        }
    }

    /// Checks and counts the pod at the node in one step: the last IP goes to one pod.
    pub fn reserve(&mut self, uid: &str, needs_ip: bool, node: &str) -> Result<Reserved, Refusal> {
        match self.pods.get(uid).map(|pod| &pod.place) {
            Some(Place::Bound(there)) if **there == *node => return Ok(Reserved::Bound),
            Some(Place::Bound(there)) => {
                return Err(Refusal::BoundElsewhere { node: there.clone() });
            }
            Some(Place::Reserved(there)) if **there == *node => return Ok(Reserved::Before),
            Some(Place::Reserved(there)) => {
                return Err(Refusal::ReservedElsewhere { node: there.clone() });
            }
            Some(Place::Nowhere | Place::Nominated(_)) | None => {}
        }
        if needs_ip {
            self.free(node, uid)?;
        }
        let before = self.pods.get(uid).cloned().unwrap_or_default();
        let next = PodEntry {
            needs_ip,
            place: Place::Reserved(self.interned(node)),
            generation: self.generation,
            confirmed: None,
            ..before
        };
        self.put_pod(uid, next);
        Ok(Reserved::Now)
    }

    /// The API server accepted the binding; the watch will send the bound pod.
    pub fn confirm(&mut self, uid: &str) {
        let generation = self.generation;
        if let Some(pod) = self.pods.get_mut(uid)
            && matches!(pod.place, Place::Reserved(_))
        {
            pod.confirmed = Some(generation);
        }
    }

    /// The API server refused the binding: the pod does not count here.
    pub fn release(&mut self, uid: &str) {
        if let Some(pod) = self.pods.get(uid)
            && matches!(pod.place, Place::Reserved(_))
        {
            let next = PodEntry {
                place: Place::Nowhere,
                confirmed: None,
                ..pod.clone()
            };
            self.put_pod(uid, next);
        }
    }

    /// Nodes that have room again and where pods wait for it.
    pub fn take_woken(&mut self) -> Vec<Arc<str>> {
        self.woken.drain(..).collect()
    }

    pub fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Whether a node that was woken still has room. If not, its pods go on waiting.
    pub fn still_has_room(&mut self, node: &str) -> bool {
        let free = self.nodes.get(node).map(|entry| self.free_at(entry, false));
        let has_room = matches!(free, Some(Ok(_)));
        if !has_room {
            self.refused(node);
        }
        has_room
    }

    /// Whether the next pod's address is on the node already, and need not be asked for.
    pub fn has_at_hand(&self, node: &str) -> bool {
        let Some(entry) = self.nodes.get(node) else {
            return false;
        };
        match entry.supply(self.rules()) {
            Ok(Supply::Shared { has, .. }) => has > entry.used,
            Ok(Supply::Fixed(_) | Supply::Unlimited) => true,
            Err(_) => false,
        }
    }

    /// Wakes one node with room, a different one each time: kube-scheduler asked about a sample of
    /// the nodes, and all of them were full.
    pub fn wake_any(&mut self) {
        let found = self.any_with_room();
        self.woken.extend(found);
    }

    fn any_with_room(&mut self) -> Option<Arc<str>> {
        if self.pods_that_fit() == 0 {
            return None;
        }
        let count = self.nodes.len();
        let from = self.cursor;
        let mut places = (0..count).map(|step| (from + step) % count);
        let found = places.find(|index| {
            let entry = self.nodes.get_index(*index);
            entry.is_some_and(|(_, entry)| self.free_at(entry, false).is_ok())
        })?;
        self.cursor = found + 1;
        self.nodes.get_index(found).map(|(name, _)| name.clone())
    }

    /// How many more pods can start in the whole cluster.
    pub fn pods_that_fit(&self) -> u64 {
        let shared = self.subnets.values().map(|subnet| u128::from(subnet.pods_that_fit()));
        saturated(self.alone.fixed + shared.sum::<u128>())
    }

    /// The same, for the nodes of each subnet.
    pub fn pods_that_fit_by_subnet(&self) -> impl Iterator<Item = (&str, u64)> {
        let known = self.subnets.iter();
        known.map(|(name, subnet)| (&**name, subnet.pods_that_fit()))
    }

    /// Whether the supply of every Node is known.
    pub fn is_supplied(&self) -> bool {
        let there = self.nodes.values().filter(|entry| entry.node.is_some());
        there.into_iter().all(|entry| entry.supply(self.rules()).is_ok())
    }

    pub fn pod_count(&self) -> usize {
        self.pods.len()
    }

    pub fn node_count(&self) -> usize {
        self.nodes.values().filter(|entry| entry.node.is_some()).count()
    }

    fn free_at(&self, entry: &NodeEntry, own: bool) -> Result<u64, Refusal> {
        let subnet = entry.subnet().and_then(|name| self.subnets.get_key_value(name));
        entry.free(self.rules(), subnet, own)
    }

    /// One string for all pods of a node.
    fn interned(&mut self, node: &str) -> Arc<str> {
        match self.nodes.get_key_value(node) {
            Some((name, _)) => name.clone(),
            None => node.into(),
        }
    }
}
