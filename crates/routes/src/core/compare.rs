//! Compares all destinations and nodes at once, and finds what is not as it should be.

use std::collections::BTreeSet;

use berth_addr::Prefix;

use super::condition::Condition;
use super::decide::{Decision, View, decide_for};
use super::index::Claimed;
use super::node::Node;
use super::route::Route;
use super::standing::{Standing, standing};

/// The differences. Destinations that need no action are left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// In the order of destinations, without `Keep`.
    pub decisions: Vec<(Prefix, Decision)>,
    /// Nodes that may need a condition or a warning: not all of their CIDRs are routed, or their
    /// condition does not say that they are.
    pub nodes: Vec<String>,
    /// How many routes inside the cluster CIDRs are ours, and how many are not.
    pub ours: usize,
    pub foreign: usize,
}

impl Comparison {
    /// Whether this destination is as it should be.
    pub fn keeps(&self, destination: Prefix) -> bool {
        let found = self
            .decisions
            .binary_search_by_key(&destination, |(other, _)| *other);
        found.is_err()
    }
}

/// Walks nodes and routes side by side in the order of destinations, so that each is visited once
/// with few lookups.
pub fn compare(view: &View<'_>) -> Comparison {
    let mut found = Comparison::default();
    // Nodes with a destination that is not routed to them.
    let mut unsettled = BTreeSet::new();
    let mut claimed = view.index.claimed().peekable();
    let mut routes = view.table.iter().peekable();
    loop {
        let next = [
            claimed.peek().map(|one| one.destination),
            routes.peek().map(|(destination, _)| *destination),
        ];
        let Some(destination) = next.into_iter().flatten().min() else {
            break;
        };
        let claim = claimed.next_if(|one| one.destination == destination);
        let there = routes.next_if(|(other, _)| *other == destination);
        let there = there.map_or(&[] as &[Route], |(_, there)| there);
        let decision = decide_for(view, destination, claim.and_then(|one| one.owner), there);
        if let Some(claim) = claim {
            unsettled.extend(not_routed(view, &claim, &decision));
        }
        for route in there {
            if view.is_ours(route) {
                found.ours += 1;
            } else if view.scope.covers(destination) {
                found.foreign += 1;
            }
        }
        if decision != Decision::Keep {
            found.decisions.push((destination, decision));
        }
    }
    let routed = Condition::routed();
    let to_report = view.index.nodes().filter(|node| {
        if node.cidrs.is_empty() {
            return standing(view, node) != Standing::NoCidr;
        }
        node.condition.as_ref() != Some(&routed)
            || unsettled.contains(node.name.as_str())
            || !has_clean_cidrs(node)
    });
    found.nodes = to_report.map(|node| node.name.clone()).collect();
    found
}

/// The nodes that claim the destination, except the one that it is routed to.
fn not_routed<'a>(
    view: &View<'_>,
    claim: &Claimed<'a>,
    decision: &Decision,
) -> impl Iterator<Item = &'a str> {
    let is_routed = *decision == Decision::Keep && view.scope.covers(claim.destination);
    let routed_to = claim.owner.filter(|_| is_routed);
    let routed_to = routed_to.map(|node| node.name.as_str());
    claim
        .claimants()
        .filter(move |name| Some(*name) != routed_to)
}

/// All of its CIDRs parse, and none is there twice.
fn has_clean_cidrs(node: &Node) -> bool {
    node.prefixes().count() == node.cidrs.len()
}
