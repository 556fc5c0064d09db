//! The Node condition `NetworkUnavailable`.

use super::decide::View;
use super::node::Node;

/// Status and reason: what decides whether it has to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// `True`, `False` or `Unknown`.
    pub status: String,
    pub reason: String,
}

impl Condition {
    pub fn routed() -> Self {
        Self::of("False", "RouteCreated")
    }

    pub fn not_routed() -> Self {
        Self::of("True", "NoRouteCreated")
    }

    fn of(status: &str, reason: &str) -> Self {
        Self {
            status: status.to_owned(),
            reason: reason.to_owned(),
        }
    }

    pub fn message(&self) -> &'static str {
        match self.status.as_str() {
            "False" => "RouteController created a route",
            _ => "RouteController failed to create a route",
        }
    }

    /// What has to be written over what is there, or nothing: one of another author with the same
    /// status is taken over.
    pub fn to_write(there: Option<&Self>, routed: bool) -> Option<Self> {
        let next = if routed {
            Self::routed()
        } else {
            Self::not_routed()
        };
        (there != Some(&next)).then_some(next)
    }
}

/// How far the routes of a node are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has no CIDR, and no route leads to it: nothing is said about it.
    NoCidr,
    /// Every CIDR has its route.
    Routed,
    NotRouted,
}

pub fn standing(view: &View<'_>, node: &Node) -> Standing {
    if node.cidrs.is_empty() {
        let leads_here = node.hops().any(|hop| view.table.leads_to(&hop));
        return if leads_here {
            Standing::Routed
        } else {
            Standing::NoCidr
        };
    }
    let parse = node.cidrs.iter().all(|cidr| cidr.prefix.is_some());
    if parse && node.prefixes().all(|prefix| view.is_routed(node, prefix)) {
        Standing::Routed
    } else {
        Standing::NotRouted
    }
}
