//! The state of a node's routes.

use super::decide::View;
use super::node::Node;

/// The state of a node's routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has no CIDR, and no route leads to it: its condition is not written.
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
