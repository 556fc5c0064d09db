//! The Nodes as the watch sent them: plain data, fed by `apply`, `delete` and `reset`.

use std::collections::{BTreeMap, BTreeSet};

use berth_addr::{Family, Prefix};

use super::node::Node;
use super::route::Hop;
use super::scope::Scope;

/// The nodes, and which of them claim each destination.
///
/// Every query about one node or destination avoids a scan of all the others: an event costs the
/// same with ten nodes and with ten thousand.
#[derive(Clone, Debug, Default)]
pub struct Index {
    nodes: BTreeMap<String, Node>,
    /// Oldest first; the first claim owns the destination.
    claims: BTreeMap<Prefix, Vec<Claim>>,
    /// How many claims have a prefix of this length. Few lengths are in use, so prefixes that
    /// contain a destination are found by trying each length.
    lengths: BTreeMap<(Family, u8), usize>,
    /// How many nodes have this hop.
    hops: BTreeMap<Hop, usize>,
    /// Hops that are known to be gone: the API server sent the deletion of their node, or another
    /// address of it. A node that is only missing in a list is not known to be gone.
    departed: BTreeSet<Hop>,
}

/// Ordered by age, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    created: i64,
    node: String,
}

/// A destination that nodes claim.
#[derive(Clone, Copy, Debug)]
pub struct Claimed<'a> {
    pub destination: Prefix,
    pub owner: Option<&'a Node>,
    claimants: &'a [Claim],
}

impl<'a> Claimed<'a> {
    /// The names of all nodes that claim it.
    pub fn claimants(&self) -> impl Iterator<Item = &'a str> {
        self.claimants.iter().map(|claim| claim.node.as_str())
    }
}

/// What an event means for routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeChange {
    /// The node came, went, or has other CIDRs or addresses.
    Routes,
    /// Only something else changed.
    Nothing,
}

/// Why a podCIDR of a node gets no route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CidrProblem {
    #[error("podCIDR {written:?} is not a CIDR: write it as 10.244.1.0/24 or fd00:10:244:1::/64")]
    Unparsable { written: String },
    #[error("podCIDR {cidr} is listed twice: remove one of them from spec.podCIDRs")]
    Repeated { cidr: Prefix },
    #[error(
        "podCIDR {cidr} is outside of the cluster CIDRs ({scope}): it gets no route; give the \
             node another one, or add the CIDR to --cluster-cidr"
    )]
    Outside { cidr: Prefix, scope: String },
    #[error(
        "podCIDR {cidr} overlaps {other} of node {node}, which is older and keeps its route: \
             give one of them another podCIDR"
    )]
    Overlaps {
        cidr: Prefix,
        other: Prefix,
        node: String,
    },
}

impl Index {
    pub fn apply(&mut self, node: Node) -> NodeChange {
        let before = self.nodes.get(&node.name);
        if let Some(before) = before
            && !node.routes_differ(before)
        {
            self.nodes.insert(node.name.clone(), node);
            return NodeChange::Nothing;
        }
        if let Some(before) = self.remove(&node.name) {
            // The event shows what the node has now: hops that it no longer has are known to be
            // gone.
            self.mark_departed(&before);
        }
        self.insert(node);
        NodeChange::Routes
    }

    /// The API server sent the deletion of the node.
    pub fn delete(&mut self, name: &str) -> NodeChange {
        match self.remove(name) {
            Some(node) => {
                self.mark_departed(&node);
                NodeChange::Routes
            }
            None => NodeChange::Nothing,
        }
    }

    /// A watch that starts again sends everything. A node that is missing now may be deleted, or
    /// the list may be stale: its hops do not count as departed. Returns the names of the nodes
    /// that came, went or changed.
    pub fn reset(&mut self, all: impl IntoIterator<Item = Node>) -> BTreeSet<String> {
        let mut changed = BTreeSet::new();
        let mut missing: BTreeSet<String> = self.nodes.keys().cloned().collect();
        for node in all {
            missing.remove(&node.name);
            let name = node.name.clone();
            if self.apply(node) == NodeChange::Routes {
                changed.insert(name);
            }
        }
        for name in missing {
            self.remove(&name);
            changed.insert(name);
        }
        changed
    }

    fn insert(&mut self, node: Node) {
        for prefix in node.prefixes() {
            let claim = Claim {
                created: node.created,
                node: node.name.clone(),
            };
            let claims = self.claims.entry(prefix).or_default();
            claims.insert(claims.partition_point(|other| *other < claim), claim);
            *self
                .lengths
                .entry((prefix.family(), prefix.length()))
                .or_default() += 1;
        }
        for hop in node.hops() {
            self.departed.remove(&hop);
            *self.hops.entry(hop).or_default() += 1;
        }
        self.nodes.insert(node.name.clone(), node);
    }

    fn remove(&mut self, name: &str) -> Option<Node> {
        let node = self.nodes.remove(name)?;
        for prefix in node.prefixes() {
            if let Some(claims) = self.claims.get_mut(&prefix) {
                claims.retain(|claim| claim.node != node.name);
                if claims.is_empty() {
                    self.claims.remove(&prefix);
                }
            }
            subtract(&mut self.lengths, &(prefix.family(), prefix.length()));
        }
        for hop in node.hops() {
            subtract(&mut self.hops, &hop);
        }
        Some(node)
    }

    fn mark_departed(&mut self, node: &Node) {
        self.departed
            .extend(node.hops().filter(|hop| !self.hops.contains_key(hop)));
    }

    /// Keeps only departed hops that routes still lead to.
    pub fn retain_departed(&mut self, still_of_interest: impl Fn(&Hop) -> bool) {
        self.departed.retain(|hop| still_of_interest(hop));
    }

    pub fn is_live(&self, hop: &Hop) -> bool {
        self.hops.contains_key(hop)
    }

    pub fn has_departed(&self, hop: &Hop) -> bool {
        self.departed.contains(hop)
    }

    pub fn get(&self, name: &str) -> Option<&Node> {
        self.nodes.get(name)
    }

    pub fn get_mut(&mut self, name: &str) -> Option<&mut Node> {
        self.nodes.get_mut(name)
    }

    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    pub fn destinations(&self) -> impl Iterator<Item = Prefix> {
        self.claims.keys().copied()
    }

    /// The owner of a destination: the oldest node that claims it, unless an older node claims an
    /// overlapping CIDR.
    pub fn owner(&self, destination: Prefix) -> Option<&Node> {
        let first = self.claims.get(&destination)?.first()?;
        let beaten = self
            .overlapping(destination)
            .any(|(_, other)| other < first);
        self.nodes.get(&first.node).filter(|_| !beaten)
    }

    /// All claimed destinations, in order. Only neighbours in this order can overlap, so overlaps
    /// are searched for only there.
    pub fn claimed(&self) -> impl Iterator<Item = Claimed<'_>> {
        let mut claims = self.claims.iter().peekable();
        let mut around: Vec<Prefix> = Vec::new();
        std::iter::from_fn(move || {
            let (&destination, claimants) = claims.next()?;
            while around.pop_if(|outer| !outer.covers(destination)).is_some() {}
            let next = claims.peek().map(|(next, _)| **next);
            let holds_another = next.is_some_and(|next| destination.covers(next));
            let is_alone = around.is_empty() && !holds_another;
            let owner = match (is_alone, claimants.first()) {
                (true, Some(first)) => self.nodes.get(&first.node),
                _ => self.owner(destination),
            };
            if holds_another {
                around.push(destination);
            }
            Some(Claimed {
                destination,
                owner,
                claimants,
            })
        })
    }

    /// The first claims of other nodes on prefixes that overlap this one.
    fn overlapping(&self, prefix: Prefix) -> impl Iterator<Item = (Prefix, &Claim)> {
        let own = self.claims.get(&prefix).and_then(|claims| claims.first());
        let around = self
            .lengths
            .keys()
            .filter(move |(family, length)| *family == prefix.family() && *length < prefix.length())
            .filter_map(move |(_, length)| Prefix::around(prefix.first(), *length));
        let last = Prefix::from(prefix.last());
        let inside = self
            .claims
            .range(prefix..=last)
            .map(|(other, _)| *other)
            .filter(move |other| *other != prefix);
        around
            .chain(inside)
            .filter_map(|other| Some((other, self.claims.get(&other)?.first()?)))
            .filter(move |(_, claim)| own.is_none_or(|own| own.node != claim.node))
    }

    /// Destinations whose routes depend on who claims this one.
    pub fn neighbours(&self, prefix: Prefix) -> Vec<Prefix> {
        self.overlapping(prefix).map(|(other, _)| other).collect()
    }

    /// What is wrong with the podCIDRs of a node.
    pub fn problems(&self, node: &Node, scope: &Scope) -> Vec<CidrProblem> {
        let mut problems = Vec::new();
        let mut earlier = BTreeSet::new();
        for cidr in &node.cidrs {
            let Some(prefix) = cidr.prefix else {
                let written = cidr.written.clone();
                problems.push(CidrProblem::Unparsable { written });
                continue;
            };
            if !earlier.insert(prefix) {
                problems.push(CidrProblem::Repeated { cidr: prefix });
            } else if !scope.covers(prefix) {
                let cidrs: Vec<String> = scope.cidrs().iter().map(ToString::to_string).collect();
                let scope = if cidrs.is_empty() {
                    "none".to_owned()
                } else {
                    cidrs.join(", ")
                };
                problems.push(CidrProblem::Outside {
                    cidr: prefix,
                    scope,
                });
            } else if let Some((other, node)) = self.rival(node, prefix) {
                let node = node.to_owned();
                problems.push(CidrProblem::Overlaps {
                    cidr: prefix,
                    other,
                    node,
                });
            }
        }
        problems
    }

    /// The older node whose claim takes precedence over this one.
    fn rival(&self, node: &Node, prefix: Prefix) -> Option<(Prefix, &str)> {
        let own = Claim {
            created: node.created,
            node: node.name.clone(),
        };
        let first = self.claims.get(&prefix).and_then(|claims| claims.first());
        let same = first.into_iter().map(|claim| (prefix, claim));
        let mut rivals = same.chain(self.overlapping(prefix));
        let (other, claim) = rivals.find(|(_, claim)| **claim < own)?;
        Some((other, claim.node.as_str()))
    }
}

fn subtract<K: Ord>(counts: &mut BTreeMap<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}
