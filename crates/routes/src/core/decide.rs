//! What has to be done about one destination.

use std::collections::BTreeSet;

use berth_addr::Prefix;

use super::change::{Change, Creation};
use super::index::Index;
use super::node::Node;
use super::route::{Hop, HopError, Mark, Route};
use super::scope::Scope;
use super::table::Table;

/// All that a decision depends on.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub index: &'a Index,
    pub table: &'a Table,
    pub scope: &'a Scope,
    /// Hops that our nodes had before this process began: if the backend cannot mark routes, routes
    /// to these hops are ours.
    pub recorded: &'a BTreeSet<Hop>,
    /// Destinations that a second look confirmed: no node wants their routes.
    pub confirmed: &'a BTreeSet<Prefix>,
    /// The backend's name for a node as a next hop.
    pub hop: &'a dyn Fn(&Node, Prefix) -> Result<Hop, HopError>,
}

impl std::fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("View").finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Keep,
    Change(Change),
    /// Routes of ours that no node wants, but whose nodes are not known to be gone: a new list of
    /// nodes must confirm that.
    Confirm,
    /// Somebody else has a route there.
    Taken(Route),
    /// The node can't be a next hop.
    NoHop(HopError),
}

pub fn decide(view: &View<'_>, destination: Prefix) -> Decision {
    let owner = view.index.owner(destination);
    decide_for(view, destination, owner, view.table.get(destination))
}

/// The same, with the owner and the existing routes already looked up.
pub(super) fn decide_for(
    view: &View<'_>,
    destination: Prefix,
    owner: Option<&Node>,
    there: &[Route],
) -> Decision {
    if !view.scope.covers(destination) {
        return Decision::Keep;
    }
    match owner {
        Some(node) => match (view.hop)(node, destination) {
            Ok(hop) => wanted(view, destination, there, node, hop),
            Err(error) => Decision::NoHop(error),
        },
        None => unwanted(view, destination, there),
    }
}

fn wanted(
    view: &View<'_>,
    destination: Prefix,
    there: &[Route],
    node: &Node,
    hop: Hop,
) -> Decision {
    // The common case.
    if matches!(there, [only] if only.usable && only.hop == hop) {
        return Decision::Keep;
    }
    let right = there
        .iter()
        .position(|route| route.usable && route.hop == hop);
    let others = there
        .iter()
        .enumerate()
        .filter(|(at, _)| Some(*at) != right);
    let (ours, foreign): (Vec<&Route>, Vec<&Route>) = others
        .map(|(_, route)| route)
        .partition(|route| view.is_ours(route));
    let create = match (right, foreign.first()) {
        (Some(_), _) => None,
        (None, Some(foreign)) => return Decision::Taken((*foreign).clone()),
        (None, None) => Some(Creation {
            node: node.name.clone(),
            uid: node.uid.clone(),
            hop,
        }),
    };
    if create.is_none() && ours.is_empty() {
        return Decision::Keep;
    }
    Decision::Change(Change {
        destination,
        delete: ours.into_iter().cloned().collect(),
        create,
    })
}

fn unwanted(view: &View<'_>, destination: Prefix, there: &[Route]) -> Decision {
    let (ours, unknown): (Vec<&Route>, Vec<&Route>) = there
        .iter()
        .filter(|route| view.is_ours(route))
        .partition(|route| view.is_known_to_be_unwanted(route));
    match (ours.is_empty(), unknown.is_empty()) {
        (true, true) => Decision::Keep,
        (true, false) => Decision::Confirm,
        (false, _) => Decision::Change(Change {
            destination,
            delete: ours.into_iter().cloned().collect(),
            create: None,
        }),
    }
}

impl View<'_> {
    /// Only our own routes are ever deleted.
    pub fn is_ours(&self, route: &Route) -> bool {
        let is_or_was_a_node = || {
            self.index.is_live(&route.hop)
                || self.index.has_departed(&route.hop)
                || self.recorded.contains(&route.hop)
        };
        self.scope.covers(route.destination)
            && match route.mark {
                Mark::Ours => true,
                Mark::Foreign => false,
                Mark::Unmarked => is_or_was_a_node(),
            }
    }

    /// True if its node exists and does not want the route, or if its node is known to be gone. A
    /// missing node is not enough: a list of nodes can be stale, or empty.
    fn is_known_to_be_unwanted(&self, route: &Route) -> bool {
        self.index.is_live(&route.hop)
            || self.index.has_departed(&route.hop)
            || self.confirmed.contains(&route.destination)
    }

    /// The backend has a route to this node for that destination.
    pub fn is_routed(&self, node: &Node, destination: Prefix) -> bool {
        let owner = self.index.owner(destination);
        owner.is_some_and(|owner| owner.name == node.name)
            && (self.hop)(node, destination).is_ok_and(|hop| {
                let mut there = self.table.get(destination).iter();
                there.any(|route| route.usable && route.hop == hop)
            })
    }
}
