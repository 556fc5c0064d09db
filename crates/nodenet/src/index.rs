//! What the watches have reported of Nodes, NodeNetworkConfigs and Subnets, and which nodes must be
//! reconciled because of it. Plain data, in a fixed order: a run with the same seed must take the
//! same steps.

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
    /// By the name of the node, or of an nnc without a node.
    pending: BTreeMap<String, Pending>,
    /// The version of an nnc up to which everything has been done.
    settled: BTreeMap<String, u64>,
    /// Nodes whose podCIDRs may not be in the ledger yet.
    unrecorded: BTreeSet<String>,
    departed: BTreeMap<String, Departed>,
}

/// A Node that is gone, or that another one of the same name has replaced. It still owns its
/// addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Departed {
    pub uid: String,
    pub machine: String,
    at: Instant,
}

/// When a Node has been gone for this long, nothing asks for what it had.
const MAX_DEPARTED: Duration = Duration::from_secs(3600);

#[derive(Debug)]
struct Known {
    facts: Arc<NodeFacts>,
    since: Instant,
    /// It has been reported that no subnet selects the node.
    left_out: bool,
    /// When this node's nnc was deleted.
    nnc_deleted: Option<Instant>,
}

/// Why a node must be reconciled. Changes of its nnc are kept apart: most of them are our own
/// writes coming back.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    nnc: bool,
    other: bool,
}

/// What is known of one node when its reconcile decides.
#[derive(Clone, Debug)]
pub struct View {
    pub node: Option<Arc<NodeFacts>>,
    /// When the node was first observed.
    pub since: Option<Instant>,
    pub has_nnc: bool,
    /// When somebody deleted this node's nnc.
    pub nnc_deleted: Option<Instant>,
    /// The subnets that the node would draw on if it had nothing yet.
    pub pods: Option<String>,
    pub node_cidrs: Option<String>,
    /// A subnet for pods that selects the node, but does not serve.
    pub unready: Option<String>,
}

impl Index {
    /// Returns whether there is something to do.
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
        self.mark_pending(name);
        true
    }

    pub fn delete_node(&mut self, name: &str, now: Instant) {
        if let Some(known) = self.nodes.remove(name) {
            self.depart(name, &known.facts, now);
        }
        self.mark_pending(name);
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

    /// The UID of the Node that was on the same machine under the same name before this one, if
    /// what it had may still exist.
    pub fn predecessor(&self, name: &str, node: &NodeFacts) -> Option<String> {
        let departed = self.departed.get(name)?;
        let same = node.machine.as_ref() == Some(&departed.machine) && departed.uid != node.uid;
        same.then(|| departed.uid.clone())
    }

    /// What the predecessor had now belongs to its successor.
    pub fn delete_predecessor(&mut self, name: &str) {
        self.departed.remove(name);
    }

    /// Returns whether there is something to do: not for a state up to which everything has been
    /// done, or an older one.
    pub fn apply_nnc(&mut self, name: &str, facts: NncFacts) -> bool {
        // A restored API server counts from an earlier number, so what was settled no longer is.
        let told = self.nncs.get(name).map_or(0, |told| told.version);
        if facts.version < told {
            self.settled.remove(name);
        }
        let settled = self.settled.get(name);
        let has_work = facts.version == 0 || settled.is_none_or(|settled| facts.version > *settled);
        self.nncs.insert(name.to_owned(), facts);
        if has_work {
            self.pending.entry(name.to_owned()).or_default().nnc = true;
        }
        has_work
    }

    /// We have just created the nnc. The watch will report it, too. But a reconcile before that
    /// must not take it for one that never existed.
    pub fn created_nnc(&mut self, name: &str, facts: NncFacts) {
        self.nncs.insert(name.to_owned(), facts);
    }

    /// The watch starts over: it is no longer known which states are older than those that were
    /// settled.
    pub fn clear_settled(&mut self) {
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
        self.mark_pending(name);
    }

    /// Returns the nodes that must be reconciled.
    pub fn apply_subnet(&mut self, name: &str, facts: SubnetFacts) -> Vec<String> {
        let facts = Arc::new(facts);
        let before = self.subnets.insert(name.to_owned(), Arc::clone(&facts));
        if before.as_ref() == Some(&facts) {
            return Vec::new();
        }
        if facts.usage == Use::NodeCidrs {
            // A podCIDR that was in no subnet may be in this one, also on nodes that it does not
            // select.
            let with_cidrs =
                self.nodes.iter().filter(|(_, known)| !known.facts.pod_cidrs.is_empty());
            self.unrecorded.extend(with_cidrs.map(|(name, _)| name.clone()));
        }
        self.mark_nodes_pending(name, [Some(facts), before].into_iter().flatten().collect())
    }

    pub fn delete_subnet(&mut self, name: &str) -> Vec<String> {
        let before = self.subnets.remove(name);
        self.mark_nodes_pending(name, before.into_iter().collect())
    }

    /// Marks the nodes that have a container in the subnet, and those that may get one there or no
    /// longer can.
    fn mark_nodes_pending(&mut self, subnet: &str, states: Vec<Arc<SubnetFacts>>) -> Vec<String> {
        let drawing = |name: &str, node: &NodeFacts| {
            let nnc = self.nncs.get(name);
            let has_container = nnc.is_some_and(|nnc| nnc.subnets.iter().any(|of| of == subnet));
            has_container || states.iter().any(|state| state.serves(state.usage, node))
        };
        let nodes = self.nodes.iter();
        let concerned = nodes.filter(|(name, known)| drawing(name, &known.facts));
        let concerned: Vec<String> = concerned.map(|(name, _)| name.clone()).collect();
        concerned.iter().for_each(|name| self.mark_pending(name));
        concerned
    }

    /// There is something to do, for a reason that is not in the index.
    pub fn mark_pending(&mut self, name: &str) {
        self.pending.entry(name.to_owned()).or_default().other = true;
    }

    /// What is known of the node now, if there is something to do for it.
    pub fn take(&mut self, name: &str) -> Option<View> {
        self.pending.remove(name)?;
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

    /// The first subnet by name that serves the node.
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

    /// Records whether a subnet selects the node. Returns `true` the first time that none does, and
    /// again only after a subnet has selected it.
    pub fn set_selected(&mut self, name: &str, selected: bool) -> bool {
        let known = self.nodes.get_mut(name);
        known.is_some_and(|known| !std::mem::replace(&mut known.left_out, !selected) && !selected)
    }

    /// Takes the nodes whose podCIDRs must be recorded. The caller records them, and marks again
    /// those that failed.
    pub fn take_unrecorded(&mut self) -> Vec<(String, Arc<NodeFacts>)> {
        let names = std::mem::take(&mut self.unrecorded);
        let there =
            |name: String| self.nodes.get(&name).map(|known| (name, Arc::clone(&known.facts)));
        names.into_iter().filter_map(there).collect()
    }

    /// Marks all nodes that have podCIDRs: the ledger may have lost them.
    pub fn mark_all_unrecorded(&mut self) {
        let with_cidrs = self.nodes.iter().filter(|(_, known)| !known.facts.pod_cidrs.is_empty());
        self.unrecorded.extend(with_cidrs.map(|(name, _)| name.clone()));
    }

    pub fn mark_unrecorded(&mut self, name: &str) {
        self.unrecorded.insert(name.to_owned());
    }

    /// Everything that the nnc requested up to this version has been done.
    pub fn settle(&mut self, name: &str, version: u64) {
        if version == 0 {
            return;
        }
        self.settled.insert(name.to_owned(), version);
        let told = self.nncs.get(name).map_or(0, |nnc| nnc.version);
        if let Some(pending) = self.pending.get_mut(name)
            && told <= version
        {
            pending.nnc = false;
            if !pending.other {
                self.pending.remove(name);
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
