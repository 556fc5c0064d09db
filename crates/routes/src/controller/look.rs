//! The second look: before a route is deleted because its node is missing, all nodes are listed
//! once more from the API server.

use std::collections::BTreeSet;

use berth_addr::Prefix;
use berth_api::ObservedNode;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::core::{Index, Node, Table};

const PAGE: u32 = 500;

/// Lists all nodes from the store, not from a cache.
pub async fn list_nodes(client: Client) -> kube::Result<Vec<Node>> {
    let api = Api::<ObservedNode>::all(client);
    let mut page = ListParams::default().limit(PAGE);
    let mut nodes = Vec::new();
    loop {
        let list = api.list(&page).await?;
        nodes.extend(list.items.into_iter().map(Node::from));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(nodes),
        }
    }
}

/// Returns the destinations that no node wants and whose routes lead to no node.
pub fn confirm(
    nodes: Vec<Node>,
    table: &Table,
    unconfirmed: &BTreeSet<Prefix>,
) -> BTreeSet<Prefix> {
    let mut fresh = Index::default();
    fresh.reset(nodes);
    let leads_nowhere = |destination: Prefix| {
        let routes = table.get(destination);
        !routes.iter().any(|route| fresh.is_live(&route.hop))
    };
    let confirmed = unconfirmed.iter().copied();
    confirmed
        .filter(|one| fresh.owner(*one).is_none() && leads_nowhere(*one))
        .collect()
}
