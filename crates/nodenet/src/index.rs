//! What the watches have told so far of Nodes, NodeNetworkConfigs and Subnets, and which nodes are
//! to be looked at because of it. Plain data, in a fixed order: a run with the same seed must take
//! the same steps.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use berth_api::subnet::Use;
use tokio::time::Instant;

use crate::facts::{NncFacts, NncOwner, NodeFacts, Requested, SubnetFacts};

#[derive(Debug, Default)]
pub struct Index {
    nodes: BTreeMap<String, Known>,
    nncs: BTreeMap<String, NncFacts>,
    subnets: BTreeMap<String, Arc<SubnetFacts>>,
    /// By the name of the node, or of the nnc without one.
    news: BTreeMap<String, News>,
    /// The version of a nnc up to which everything has been done.
    settled: BTreeMap<String, u64>,
    /// Nodes whose podCIDRs may not be in the ledger yet.
    unrecorded: BTreeSet<String>,
    departed: BTreeMap<String, Departed>,
}

/// A Node that is gone, or that another one of the same name has followed. Its addresses are still
/// its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departed {
    pub uid: String,
    pub machine: String,
    at: Instant,
}

/// So long after it is gone, nobody asks for what a Node had.
const MAX_DEPARTED: Duration = Duration::from_secs(3600);

#[derive(Debug)]
struct Known {
    facts: Arc<NodeFacts>,
    since: Instant,
    /// It has been said that no subnet selects it.
    left_out: bool,
    /// When the nnc that was this node's went.
    nnc_deleted: Option<Instant>,
}

/// Why a node is to be looked at. Changes of its nnc are told apart: most of them are our own
/// writes coming back.
#[derive(Clone, Copy, Debug, Default)]
struct News {
    nnc: bool,
    other: bool,
}

/// What is known of one node, to decide on.
#[derive(Clone, Debug)]
pub struct View {
    pub node: Option<Arc<NodeFacts>>,
    /// When the node was first observed.
    pub since: Option<Instant>,
    pub has_nnc: bool,
    /// When the nnc that was this node's went: somebody deleted it.
    pub nnc_deleted: Option<Instant>,
    /// The subnets it would draw on, if it had nothing yet.
    pub pods: Option<String>,
    pub node_cidrs: Option<String>,
    /// One for pods that selects it, and does not serve.
    pub unready: Option<String>,
}

impl Index {
    /// Whether there is something to do.
    pub fn apply_node(&mut self, name: &str, facts: NodeFacts, now: Instant) -> bool {
        let before = self.nodes.get(name);
        // Kubelets write a node's status all the time; most of it is of no interest here.
        if before.is_some_and(|before| *before.facts == facts) {
            return false;
        }
        if let Some(other) = before.filter(|before| before.facts.uid != facts.uid) {
            let facts = Arc::clone(&other.facts);
            self.depart(name, &facts, now);
        }
        let before = self.nodes.get(name);
        let same_node = before.filter(|before| before.facts.uid == facts.uid);
        if !facts.pod_cidrs.is_empty() {
            self.unrecorded.insert(name.to_owned());
        }
        let known = Known {
            since: same_node.map_or(now, |before| before.since),
            left_out: same_node.is_some_and(|before| before.left_out),
            nnc_deleted: same_node.and_then(|before| before.nnc_deleted),
            facts: Arc::new(facts),
        };
        self.nodes.insert(name.to_owned(), known);
        self.look_at(name);
        true
    }

    pub fn delete_node(&mut self, name: &str, now: Instant) {
        if let Some(known) = self.nodes.remove(name) {
            self.depart(name, &known.facts, now);
        }
        self.look_at(name);
    }

    fn depart(&mut self, name: &str, facts: &NodeFacts, now: Instant) {
        let recent =
            |departed: &Departed| now.saturating_duration_since(departed.at) < MAX_DEPARTED;
        self.departed.retain(|_, departed| recent(departed));
        if let Some(machine) = facts.machine.clone() {
            let uid = facts.uid.clone();
            self.departed
                .insert(name.to_owned(), Departed { uid, machine, at: now });
        }
    }

    /// The Node that was on the same machine under the same name before this one, if what it had
    /// may still be there.
    pub fn predecessor(&self, name: &str, node: &NodeFacts) -> Option<String> {
        let departed = self.departed.get(name)?;
        let same = node.machine.as_ref() == Some(&departed.machine) && departed.uid != node.uid;
        same.then(|| departed.uid.clone())
    }

    /// What it had is its successor's.
    pub fn succeeded(&mut self, name: &str) {
        self.departed.remove(name);
    }

    /// Whether there is something to do: not when it is a state that was left behind by us, or an
    /// older one.
    pub fn apply_nnc(&mut self, name: &str, facts: NncFacts) -> bool {
        // A server that was restored counts from an earlier number: what was settled then is not.
        let told = self.nncs.get(name).map_or(0, |told| told.version);
        if facts.version < told {
            self.settled.remove(name);
        }
        let settled = self.settled.get(name);
        let is_news = facts.version == 0 || settled.is_none_or(|settled| facts.version > *settled);
        self.nncs.insert(name.to_owned(), facts);
        if is_news {
            self.news.entry(name.to_owned()).or_default().nnc = true;
        }
        is_news
    }

    /// We have just made it. The watch tells of it, too, and of whatever becomes of it: but whoever
    /// looks before that must not take it for one that was never there.
    pub fn created_nnc(&mut self, name: &str, facts: NncFacts) {
        self.nncs.insert(name.to_owned(), facts);
    }

    /// The watch begins anew: it can't be told any more which states are older than those that were
    /// settled.
    pub fn unsettle(&mut self) {
        self.settled.clear();
    }

    pub fn delete_nnc(&mut self, name: &str, now: Instant) {
        if let Some(nnc) = self.nncs.remove(name)
            && let Some(known) = self.nodes.get_mut(name)
            && matches!(&nnc.owner, NncOwner::Node { uid } if *uid == known.facts.uid)
        {
            known.nnc_deleted = Some(now);
        }
        self.settled.remove(name);
        self.look_at(name);
    }

    /// The nodes that there is something to do for.
    pub fn apply_subnet(&mut self, name: &str, facts: SubnetFacts) -> Vec<String> {
        let facts = Arc::new(facts);
        let before = self.subnets.insert(name.to_owned(), Arc::clone(&facts));
        if before.as_ref() == Some(&facts) {
            return Vec::new();
        }
        if facts.usage == Use::NodeCidrs {
            // What was nowhere may be in it, also of nodes that it does not select.
            let with_cidrs =
                self.nodes.iter().filter(|(_, known)| !known.facts.pod_cidrs.is_empty());
            self.unrecorded.extend(with_cidrs.map(|(name, _)| name.clone()));
        }
        self.look_at_nodes_of(name, [Some(facts), before].into_iter().flatten().collect())
    }

    pub fn delete_subnet(&mut self, name: &str) -> Vec<String> {
        let before = self.subnets.remove(name);
        self.look_at_nodes_of(name, before.into_iter().collect())
    }

    /// Those that have a container in the subnet, and those that may get one there or can't any
    /// more.
    fn look_at_nodes_of(&mut self, subnet: &str, states: Vec<Arc<SubnetFacts>>) -> Vec<String> {
        let drawing = |name: &str, node: &NodeFacts| {
            let nnc = self.nncs.get(name);
            let has_container = nnc.is_some_and(|nnc| nnc.subnets.iter().any(|of| of == subnet));
            has_container || states.iter().any(|state| state.serves(state.usage, node))
        };
        let nodes = self.nodes.iter();
        let concerned = nodes.filter(|(name, known)| drawing(name, &known.facts));
        let concerned: Vec<String> = concerned.map(|(name, _)| name.clone()).collect();
        concerned.iter().for_each(|name| self.look_at(name));
        concerned
    }

    /// There is something to do for a reason that is not in here.
    pub fn look_at(&mut self, name: &str) {
        self.news.entry(name.to_owned()).or_default().other = true;
    }

    /// What is known now, if there is anything new in it.
    pub fn take(&mut self, name: &str) -> Option<View> {
        self.news.remove(name)?;
        let known = self.nodes.get(name);
        let node = known.map(|known| Arc::clone(&known.facts));
        let first = |usage| {
            node.as_deref()
                .and_then(|node| self.first_match(usage, node))
                .map(str::to_owned)
        };
        Some(View {
            since: known.map(|known| known.since),
            has_nnc: self.nncs.contains_key(name),
            nnc_deleted: known.and_then(|known| known.nnc_deleted),
            pods: first(Use::Pods),
            node_cidrs: first(Use::NodeCidrs),
            unready: node
                .as_deref()
                .and_then(|node| self.first_unready(node))
                .map(str::to_owned),
            node,
        })
    }

    /// The first by name.
    fn first_match(&self, usage: Use, node: &NodeFacts) -> Option<&str> {
        let mut subnets = self.subnets.iter();
        let found = subnets.find(|(_, subnet)| subnet.serves(usage, node));
        found.map(|(name, _)| name.as_str())
    }

    fn first_unready(&self, node: &NodeFacts) -> Option<&str> {
        let mut subnets = self.subnets.iter();
        let found = subnets.find(|(_, subnet)| subnet.selects(Use::Pods, node) && !subnet.serving);
        found.map(|(name, _)| name.as_str())
    }

    /// Whether a subnet selects the node. Gives whether it is news that none does: it is until a
    /// subnet selects it again.
    pub fn set_selected(&mut self, name: &str, selected: bool) -> bool {
        let known = self.nodes.get_mut(name);
        known.is_some_and(|known| !std::mem::replace(&mut known.left_out, !selected) && !selected)
    }

    /// The nodes whose podCIDRs are to be recorded: whoever takes them does that, or says which are
    /// still not.
    pub fn take_unrecorded(&mut self) -> Vec<(String, Arc<NodeFacts>)> {
        let names = std::mem::take(&mut self.unrecorded);
        let there =
            |name: String| self.nodes.get(&name).map(|known| (name, Arc::clone(&known.facts)));
        names.into_iter().filter_map(there).collect()
    }

    /// All that have podCIDRs: the ledger may have lost them.
    pub fn unrecord_all(&mut self) {
        let with_cidrs = self.nodes.iter().filter(|(_, known)| !known.facts.pod_cidrs.is_empty());
        self.unrecorded.extend(with_cidrs.map(|(name, _)| name.clone()));
    }

    pub fn unrecord(&mut self, name: &str) {
        self.unrecorded.insert(name.to_owned());
    }

    /// All that the nnc asked for up to this version has been done.
    pub fn settle(&mut self, name: &str, version: u64) {
        if version == 0 {
            return;
        }
        self.settled.insert(name.to_owned(), version);
        let told = self.nncs.get(name).map_or(0, |nnc| nnc.version);
        if let Some(news) = self.news.get_mut(name)
            && told <= version
        {
            news.nnc = false;
            if !news.other {
                self.news.remove(name);
            }
        }
    }

    pub fn subnet(&self, name: &str) -> Option<Arc<SubnetFacts>> {
        self.subnets.get(name).cloned()
    }

    /// The subnet for pods that has this address.
    pub fn pods_subnet_of(&self, address: IpAddr) -> Option<String> {
        let mut subnets = self.subnets.iter();
        let has = |subnet: &SubnetFacts| {
            subnet.usage == Use::Pods && subnet.cidr_around(address).is_some()
        };
        let found = subnets.find(|(_, subnet)| subnet.serving && has(subnet));
        found.map(|(name, _)| name.clone())
    }

    pub fn subnets_for(&self, usage: Use) -> Vec<(String, Arc<SubnetFacts>)> {
        let of_use = self.subnets.iter().filter(|(_, subnet)| subnet.usage == usage);
        of_use
            .map(|(name, subnet)| (name.clone(), Arc::clone(subnet)))
            .collect()
    }

    pub fn node(&self, name: &str) -> Option<Arc<NodeFacts>> {
        self.nodes.get(name).map(|known| Arc::clone(&known.facts))
    }

    /// How many nodes wait for a container in the subnet.
    pub fn starting(&self, subnet: &str) -> usize {
        let nodes = self.nodes.iter().filter(|(name, known)| {
            let nnc = self.nncs.get(*name);
            let is_empty = nnc.is_some_and(|nnc| nnc.containers.is_empty() && !nnc.deleting);
            is_empty && self.first_match(Use::Pods, &known.facts) == Some(subnet)
        });
        nodes.count()
    }

    /// What the nodes that draw on a subnet ask for: by name, with what was delivered.
    pub fn requests(&self, subnet: &str) -> impl Iterator<Item = (&str, Requested)> {
        let drawing = self.nncs.iter().filter(|(_, nnc)| !nnc.deleting);
        drawing.filter_map(move |(name, nnc)| {
            let draws = nnc.pods_subnet.as_deref() == Some(subnet);
            draws.then_some((name.as_str(), nnc.requested))
        })
    }

    pub fn nnc(&self, name: &str) -> Option<&NncFacts> {
        self.nncs.get(name)
    }
}

#[cfg(test)]
mod tests;
