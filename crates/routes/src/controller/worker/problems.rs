//! Reports on its Node what keeps a podCIDR from getting a route.

use std::collections::BTreeSet;

use berth_addr::Prefix;

use super::Worker;
use crate::controller::publish;
use crate::core::{Decision, Node, View, decide};

impl Worker {
    /// Emits a warning for each new problem: a podCIDR without a route, an impossible next hop, a
    /// foreign route in the way.
    pub(super) fn warn_of_problems(&mut self, name: &str) {
        // Cluster CIDRs and foreign routes are unknown until routes were listed.
        let scope = self.shared.scope.lock().clone();
        let Some(scope) = scope.filter(|_| self.table.is_some()) else {
            return;
        };
        let (node, problems) = {
            let index = self.shared.index.lock();
            let Some(node) = index.get(name).cloned() else {
                drop(index);
                self.publishing.new_warnings(name, BTreeSet::new());
                return;
            };
            let problems = index.problems(&node, &scope);
            (node, problems)
        };
        let mut warnings: BTreeSet<String> = problems.iter().map(ToString::to_string).collect();
        warnings.extend(
            node.prefixes()
                .filter_map(|destination| self.obstacle(&node, destination)),
        );
        for note in self.publishing.new_warnings(name, warnings) {
            tracing::warn!(node = name, note, "cannot create a route for the node");
            publish::warn(&self.events, &node, "FailedToCreateRoute", note);
        }
    }

    /// Why a route that the node should have cannot be tried.
    pub(super) fn obstacle(&self, node: &Node, destination: Prefix) -> Option<String> {
        let owns = |view: &View<'_>| {
            let owner = view.index.owner(destination);
            owner.is_some_and(|owner| owner.name == node.name)
        };
        self.with_view(|view| match decide(view, destination) {
            Decision::Taken(route) if owns(view) => Some(format!(
                "Could not create route {} {destination} for node {}: there is a route to it by {} \
                 that is not ours: remove it, or give the node another podCIDR",
                node.uid, node.name, route.hop
            )),
            Decision::NoHop(error) if owns(view) => Some(error.to_string()),
            _ => None,
        })?
    }
}
