//! Nodes and routes in few words.

use std::collections::BTreeSet;
use std::net::IpAddr;

use berth_addr::Prefix;
use berth_routes::backend::Backend;
use berth_routes::backend::memory::Memory;
use berth_routes::core::{
    Address, Cidr, Decision, Hop, Index, Mark, Node, Route, Scope, Table, View, decide,
};

pub fn node(name: &str, created: i64, cidrs: &[&str], address: &str) -> Node {
    Node {
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        created,
        cidrs: cidrs.iter().map(|cidr| Cidr::from(*cidr)).collect(),
        addresses: vec![Address {
            kind: "InternalIP".to_owned(),
            address: address.to_owned(),
        }],
        ..Node::default()
    }
}

pub fn prefix(text: &str) -> Prefix {
    berth_routes::core::parse_cidr(text).unwrap()
}

pub fn route(destination: &str, hop: &str) -> Route {
    Route {
        destination: prefix(destination),
        hop: Hop::Address(hop.parse::<IpAddr>().unwrap()),
        mark: Mark::Ours,
        usable: true,
    }
}

pub struct Scene {
    pub index: Index,
    pub table: Table,
    pub scope: Scope,
    pub recorded: BTreeSet<Hop>,
    pub confirmed: BTreeSet<Prefix>,
}

impl Scene {
    pub fn new(nodes: Vec<Node>, routes: Vec<Route>, scope: &[&str]) -> Self {
        let mut index = Index::default();
        index.reset(nodes);
        Self {
            index,
            table: Table::new(routes),
            scope: Scope::new(scope.iter().map(|cidr| prefix(cidr))),
            recorded: BTreeSet::new(),
            confirmed: BTreeSet::new(),
        }
    }

    pub fn with<T>(&self, on: impl FnOnce(&View<'_>) -> T) -> T {
        let backend = Memory::default();
        on(&View {
            index: &self.index,
            table: &self.table,
            scope: &self.scope,
            recorded: &self.recorded,
            confirmed: &self.confirmed,
            hop: &|node, destination| backend.hop(node, destination),
        })
    }

    pub fn decide(&self, destination: &str) -> Decision {
        self.with(|view| decide(view, prefix(destination)))
    }

    pub fn destinations(&self) -> BTreeSet<Prefix> {
        self.index
            .destinations()
            .chain(self.table.destinations())
            .collect()
    }

    /// Everything is done that has to be, and a second look finds nothing new.
    pub fn reconcile(&mut self) {
        for destination in self.destinations() {
            loop {
                match self.with(|view| decide(view, destination)) {
                    Decision::Change(change) => self.table.apply(&change, Mark::Ours),
                    Decision::Confirm => drop(self.confirmed.insert(destination)),
                    Decision::Keep | Decision::Taken(_) | Decision::NoHop(_) => break,
                }
            }
        }
    }
}
