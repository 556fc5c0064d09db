//! Every case of `vectors/routes.json`.

use std::collections::BTreeMap;

use berth_routes::core::{Condition, Hop, Mark, Node, Route, Standing, standing};
use serde_json::Value;

use crate::scene::{Scene, node, prefix, route};

fn vectors() -> Value {
    serde_json::from_str(include_str!("../vectors/routes.json")).unwrap()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn list(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(text).collect()
}

fn nodes(vectors: &Value) -> BTreeMap<String, Node> {
    let nodes = vectors["nodes"].as_object().unwrap().iter();
    let read = |(name, of): (&String, &Value)| {
        let mut node = node(name, 0, &list(&of["podCIDRs"]), text(&of["internalIP"]));
        node.uid = text(&of["uid"]).to_owned();
        (name.clone(), node)
    };
    nodes.map(read).collect()
}

/// Routes to every CIDR of every node.
fn complete(nodes: &[Node]) -> Vec<Route> {
    let of = |node: &Node| -> Vec<Route> {
        let hop = &node.addresses[0].address;
        node.cidrs
            .iter()
            .map(|cidr| route(&cidr.written, hop))
            .collect()
    };
    nodes.iter().flat_map(of).collect()
}

fn routes(list: &Value, all: &BTreeMap<String, Node>, nodes: &[Node]) -> Vec<Route> {
    if *list == "complete" {
        return complete(nodes);
    }
    let read = |one: &Value| -> Vec<Route> {
        if *one == "complete" {
            return complete(nodes);
        }
        let node = all.get(text(&one["node"]));
        let hop = node.map_or("10.0.99.99", |node| &node.addresses[0].address);
        let mut route = route(text(&one["cidr"]), hop);
        if one["blackhole"] == true {
            route.usable = false;
            route.hop = Hop::Other("blackhole".to_owned());
        }
        vec![route]
    };
    list.as_array().unwrap().iter().flat_map(read).collect()
}

#[test]
fn routes_inside_a_cluster_cidr_are_ours() {
    for case in vectors()["responsible"].as_array().unwrap() {
        let scope = berth_routes::core::Scope::new([prefix(text(&case["cluster"]))]);
        let covered = scope.covers(prefix(text(&case["route"])));
        assert_eq!(covered, case["want"].as_bool().unwrap(), "{case}");
    }
}

#[test]
fn every_reconcile_ends_with_the_wanted_routes() {
    let vectors = vectors();
    let all = nodes(&vectors);
    let cases = vectors["reconcile"].as_array().unwrap();
    assert_eq!(cases.len(), 7);
    for case in cases {
        let nodes: Vec<Node> = list(&case["nodes"])
            .iter()
            .map(|name| all[*name].clone())
            .collect();
        let have = routes(&case["have"], &all, &nodes);
        let mut want = routes(&case["want"], &all, &nodes);
        let mut scene = Scene::new(nodes.clone(), have, &list(&vectors["clusterCIDRs"]));
        scene.reconcile();
        let mut found: Vec<Route> = scene.table.routes().cloned().collect();
        let order = |route: &Route| (route.destination, route.hop.clone());
        found.sort_by_key(order);
        want.sort_by_key(order);
        assert_eq!(found, want, "{}", case["name"]);
        assert!(found.iter().all(|route| route.mark == Mark::Ours));
        for node in &nodes {
            let expected = if node.cidrs.is_empty() {
                Standing::NoCidr
            } else {
                Standing::Routed
            };
            assert_eq!(
                scene.with(|view| standing(view, node)),
                expected,
                "{}",
                case["name"]
            );
        }
    }
}

#[test]
fn the_condition_is_written_when_status_or_reason_differ() {
    let cases = vectors()["condition"].as_array().unwrap().clone();
    assert_eq!(cases.len(), 5);
    for case in cases {
        let read = |value: &Value| {
            let (status, reason) = value.as_str()?.split_once('/')?;
            Some(Condition {
                status: status.to_owned(),
                reason: reason.to_owned(),
            })
        };
        let there = read(&case["have"]);
        let written = Condition::to_write(there.as_ref(), case["routed"].as_bool().unwrap());
        assert_eq!(written, read(&case["patch"]), "{case}");
    }
}
