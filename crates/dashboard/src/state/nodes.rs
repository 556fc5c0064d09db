//! Nodes with their pools and routes, and pages of them.

use std::collections::BTreeMap;

use berth_api::ObservedNode;
use berth_inspect::status::{self, NodeRow, condition};
use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;

use crate::index::Index;

/// The maximum length of a page.
const MAX_PAGE: usize = 500;

/// Whether traffic for a node's podCIDR reaches the node, from its condition NetworkUnavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RouteState {
    Routed,
    /// A route controller has not made the route yet, or has failed to.
    Missing,
    /// The condition is missing: no route controller runs, or none is needed.
    Unknown,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeView {
    #[serde(flatten)]
    pub row: NodeRow,
    /// The node's own InternalIP.
    pub address: String,
    pub created: Option<Timestamp>,
    /// The most that it may ask for.
    pub max: Option<i64>,
    pub releasing: usize,
    /// Only for a node with a podCIDR.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<RouteState>,
    /// The message of the condition about its route.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub route_message: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePage {
    /// How many nodes match; below, the number of the first one here.
    pub total: usize,
    pub from: usize,
    pub nodes: Vec<NodeView>,
}

/// What is shown of these nodes.
pub fn views(index: &Index, rows: Vec<NodeRow>) -> Vec<NodeView> {
    let view = |row: NodeRow| {
        let node = index.facts.nodes.get(&row.name);
        let nnc = index.facts.nncs.get(&row.name);
        let status = nnc.and_then(|nnc| nnc.object.status.as_ref());
        let routed = node.filter(|_| !row.pod_cidrs.is_empty()).map(route);
        let (route, route_message) = routed.unzip();
        NodeView {
            row,
            address: node.map(address).unwrap_or_default(),
            created: node.and_then(ResourceExt::creation_timestamp).map(|time| time.0),
            max: status
                .and_then(|status| status.scaler)
                .map(|scaler| scaler.max_ip_count),
            releasing: nnc.map_or(0, |nnc| nnc.object.spec.ips_not_in_use.len()),
            route,
            route_message: route_message.unwrap_or_default(),
        }
    };
    rows.into_iter().map(view).collect()
}

fn route(node: &ObservedNode) -> (RouteState, String) {
    match condition(node, "NetworkUnavailable") {
        Some((status, message)) if status == "False" => (RouteState::Routed, message),
        Some((_, message)) => (RouteState::Missing, message),
        None => (RouteState::Unknown, String::new()),
    }
}

fn address(node: &ObservedNode) -> String {
    node.internal_ips().next().unwrap_or_default().to_owned()
}

pub fn routes(index: &Index, rows: &[NodeRow]) -> BTreeMap<RouteState, usize> {
    let mut counts = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.pod_cidrs.is_empty()) {
        if let Some(node) = index.facts.nodes.get(&row.name) {
            *counts.entry(route(node).0).or_default() += 1;
        }
    }
    counts
}

/// Puts nodes that need a person first. Both parts keep their order.
pub fn worst_first(rows: &mut [NodeRow]) {
    rows.sort_by_key(|row| row.state == "Ready" && row.waiting == 0);
}

/// A page of the nodes whose name, subnet, state or podCIDR contains `search`, worst first.
pub fn page(index: &Index, search: &str, from: usize, count: usize) -> NodePage {
    let search = search.to_lowercase();
    let has = |row: &NodeRow| {
        let texts = [&row.name, &row.subnet, &row.state];
        let mut texts = texts.into_iter().chain(&row.pod_cidrs);
        texts.any(|text| text.to_lowercase().contains(&search))
    };
    let mut rows = status::nodes(&index.facts);
    rows.retain(has);
    let total = rows.len();
    worst_first(&mut rows);
    let shown = rows.into_iter().skip(from).take(count.min(MAX_PAGE)).collect();
    NodePage {
        total,
        from,
        nodes: views(index, shown),
    }
}
