//! What it costs to compare 5,000 nodes with 5,000 routes when nothing differs.

use std::collections::BTreeSet;
use std::hint::black_box;
use std::time::Instant;

use berth_routes::backend::Backend;
use berth_routes::backend::memory::Memory;
use berth_routes::core::{
    Address, Cidr, Comparison, Condition, Hop, Index, Mark, Node, Route, Scope, Table, View,
    compare,
};
use berth_testbed::Figures;

const NODES: u32 = 5000;

fn node(number: u32) -> Node {
    Node {
        name: format!("node-{number}"),
        uid: format!("uid-{number}"),
        cidrs: vec![Cidr::from(
            format!("10.{}.{}.0/24", number / 256, number % 256).as_str(),
        )],
        addresses: vec![Address {
            kind: "InternalIP".to_owned(),
            address: format!("172.16.{}.{}", number / 256, number % 256),
        }],
        condition: Some(Condition::routed()),
        ..Node::default()
    }
}

fn route(node: &Node) -> Route {
    Route {
        destination: node.prefixes().next().unwrap(),
        hop: Hop::Address(node.internal_addresses().next().unwrap()),
        mark: Mark::Ours,
        usable: true,
    }
}

pub fn measure(figures: &mut Figures) {
    let nodes: Vec<Node> = (0..NODES).map(node).collect();
    let mut listed: Vec<Route> = nodes.iter().map(route).collect();
    let mut index = Index::default();
    index.reset(nodes);
    let backend = Memory::default();
    let scope = Scope::new(["10.0.0.0/8".parse().unwrap()]);
    let nothing = (BTreeSet::new(), BTreeSet::new());
    // As clouds do: in no order.
    listed.sort_by_key(|route| route.hop.to_string());
    let mut table = Table::new(listed.clone());
    let unchanged = Comparison {
        ours: listed.len(),
        ..Comparison::default()
    };
    let mut best = f64::MAX;
    for _ in 0..20 {
        let listed = listed.clone();
        let start = Instant::now();
        // All that the worker does, from the answer to the list on.
        table.replace(listed, &nothing.1);
        let view = View {
            index: &index,
            table: &table,
            scope: &scope,
            recorded: &nothing.0,
            confirmed: &nothing.1,
            hop: &|node, destination| backend.hop(node, destination),
        };
        assert_eq!(black_box(compare(&view)), unchanged);
        best = best.min(start.elapsed().as_secs_f64());
    }
    figures.millis("berth: reconcile of 5,000 nodes, nothing to do", best * 1e3);
}
