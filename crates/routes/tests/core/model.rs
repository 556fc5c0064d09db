//! Random clusters: whatever comes and goes, the table ends as a naive model says, and no change
//! touches what is not ours.

use std::collections::BTreeMap;

use berth_addr::Prefix;
use berth_routes::core::{
    Condition, Decision, Hop, Mark, Route, Standing, compare, decide, standing,
};
use proptest::prelude::*;

use crate::scene::{Scene, node, prefix, route};

const CLUSTER: &[&str] = &["10.120.0.0/16"];

#[derive(Clone, Debug)]
enum Step {
    /// A node of this number comes, or has other CIDRs now.
    Apply {
        node: u8,
        cidrs: Vec<u8>,
        address: u8,
    },
    Delete {
        node: u8,
    },
    /// Somebody else makes a route.
    Foreign {
        third: u8,
        inside: bool,
    },
    /// Somebody removes one of ours.
    Lose {
        third: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6_u8, prop::collection::vec(0..8_u8, 0..3), 1..9_u8)
            .prop_map(|(node, cidrs, address)| Step::Apply { node, cidrs, address }),
        2 => (0..6_u8).prop_map(|node| Step::Delete { node }),
        1 => (8..12_u8, any::<bool>()).prop_map(|(third, inside)| Step::Foreign { third, inside }),
        1 => (0..8_u8).prop_map(|third| Step::Lose { third }),
    ]
}

fn cidr(third: u8) -> String {
    format!("10.120.{third}.0/24")
}

fn take(scene: &mut Scene, foreign: &mut Vec<Route>, step: &Step) {
    match step {
        Step::Apply {
            node: name,
            cidrs,
            address,
        } => {
            let cidrs: Vec<String> = cidrs.iter().map(|third| cidr(*third)).collect();
            let cidrs: Vec<&str> = cidrs.iter().map(String::as_str).collect();
            let name = format!("n{name}");
            let created = i64::from(name.as_bytes()[1]);
            scene
                .index
                .apply(node(&name, created, &cidrs, &format!("10.0.0.{address}")));
        }
        Step::Delete { node } => drop(scene.index.delete(&format!("n{node}"))),
        Step::Foreign { third, inside } => {
            let second = if *inside { 120 } else { 121 };
            let mut one = route(&format!("10.{second}.{third}.0/24"), "10.9.9.9");
            one.mark = Mark::Foreign;
            if !foreign.contains(&one) {
                foreign.push(one);
                with_table(scene, |routes| {
                    routes.push(foreign[foreign.len() - 1].clone())
                });
            }
        }
        Step::Lose { third } => {
            let lost = prefix(&cidr(*third));
            with_table(scene, |routes| {
                routes.retain(|route| route.destination != lost)
            });
        }
    }
}

fn with_table(scene: &mut Scene, on: impl FnOnce(&mut Vec<Route>)) {
    let mut routes: Vec<Route> = scene.table.routes().cloned().collect();
    on(&mut routes);
    scene.table = berth_routes::core::Table::new(routes);
}

/// The oldest node that wants it has it. No two CIDRs overlap here but the same ones.
fn model(scene: &Scene) -> BTreeMap<Prefix, Hop> {
    let mut wanted: BTreeMap<Prefix, (i64, &str, Hop)> = BTreeMap::new();
    for node in scene.index.nodes() {
        let hop = Hop::Address(node.addresses[0].address.parse().unwrap());
        for prefix in node.prefixes() {
            let claim = (node.created, node.name.as_str(), hop.clone());
            let there = wanted.entry(prefix).or_insert_with(|| claim.clone());
            if (claim.0, claim.1) < (there.0, there.1) {
                *there = claim;
            }
        }
    }
    wanted
        .into_iter()
        .map(|(prefix, (_, _, hop))| (prefix, hop))
        .collect()
}

proptest! {
    #[test]
    fn the_table_ends_as_the_model_says(steps in prop::collection::vec(step(), 1..40)) {
        let mut scene = Scene::new(vec![], vec![], CLUSTER);
        let mut foreign = Vec::new();
        for step in &steps {
            take(&mut scene, &mut foreign, step);
            if matches!(step, Step::Apply { node, .. } if node % 2 == 0) {
                scene.reconcile();
            }
        }
        scene.confirmed.clear();
        scene.reconcile();
        let ours: BTreeMap<Prefix, Hop> = scene
            .table
            .routes()
            .filter(|route| route.mark == Mark::Ours)
            .map(|route| (route.destination, route.hop.clone()))
            .collect();
        prop_assert_eq!(ours, model(&scene));
        for route in &foreign {
            prop_assert!(scene.table.get(route.destination).contains(route));
        }
        // Nothing is left to do.
        for destination in scene.destinations() {
            let decision = scene.with(|view| decide(view, destination));
            prop_assert_eq!(decision, Decision::Keep);
        }
    }

    #[test]
    fn a_comparison_of_everything_says_what_each_decision_says(
        steps in prop::collection::vec(step(), 1..40),
        left in prop::collection::vec((0..8_u8, 1..9_u8), 0..12),
        reconciled in any::<bool>(),
    ) {
        let routes = left.iter().map(|(third, hop)| route(&cidr(*third), &format!("10.0.0.{hop}")));
        let mut scene = Scene::new(vec![], routes.collect(), CLUSTER);
        let mut foreign = Vec::new();
        for step in &steps {
            take(&mut scene, &mut foreign, step);
        }
        // Around, inside of and beside those of others.
        let wide = ["10.120.2.0/23", "10.120.6.0/25", "10.121.0.0/24"];
        scene.index.apply(node("wide", 50, &wide, "10.0.0.9"));
        let unparsable = node("unparsable", 0, &["10.120.9.0/24", "10.120.9.0"], "10.0.0.10");
        scene.index.apply(unparsable);
        if reconciled {
            scene.reconcile();
        }
        let found = scene.with(compare);
        let decided = |destination| scene.with(|view| decide(view, destination));
        let one_by_one: Vec<(Prefix, Decision)> = scene
            .destinations()
            .into_iter()
            .map(|destination| (destination, decided(destination)))
            .filter(|(_, decision)| *decision != Decision::Keep)
            .collect();
        prop_assert_eq!(&found.decisions, &one_by_one);
        for node in scene.index.nodes() {
            // None has a condition yet.
            let silent = scene.with(|view| standing(view, node)) == Standing::NoCidr;
            prop_assert_eq!(found.nodes.contains(&node.name), !silent, "{}", &node.name);
        }
        let inside = |route: &&Route| scene.scope.covers(route.destination);
        let ours = scene.table.routes().filter(inside).filter(|one| one.mark == Mark::Ours);
        prop_assert_eq!(found.ours, ours.count());
        prop_assert_eq!(found.ours + found.foreign, scene.table.routes().filter(inside).count());
    }

    #[test]
    fn a_node_that_is_routed_and_says_so_needs_nothing(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let mut scene = Scene::new(vec![], vec![], CLUSTER);
        for step in &steps {
            take(&mut scene, &mut Vec::new(), step);
        }
        scene.reconcile();
        let names: Vec<String> = scene.index.nodes().map(|node| node.name.clone()).collect();
        for name in names {
            scene.index.get_mut(&name).unwrap().condition = Some(Condition::routed());
        }
        let found = scene.with(compare);
        for node in scene.index.nodes() {
            let routed = scene.with(|view| standing(view, node)) == Standing::Routed;
            let twice = node.prefixes().count() < node.cidrs.len();
            let needs = match node.cidrs.is_empty() {
                true => routed,
                false => !routed || twice,
            };
            prop_assert_eq!(found.nodes.contains(&node.name), needs, "{}", &node.name);
        }
    }

    #[test]
    fn a_change_creates_only_after_all_of_ours_there_is_deleted(
        steps in prop::collection::vec(step(), 1..40),
        left in prop::collection::vec((0..8_u8, 1..9_u8), 0..12),
    ) {
        let routes = left.iter().map(|(third, hop)| route(&cidr(*third), &format!("10.0.0.{hop}")));
        let mut scene = Scene::new(vec![], routes.collect(), CLUSTER);
        let mut foreign = Vec::new();
        for step in &steps {
            take(&mut scene, &mut foreign, step);
        }
        for destination in scene.destinations() {
            if let Decision::Change(change) = scene.with(|view| decide(view, destination)) {
                prop_assert!(change.delete.iter().all(|route| route.mark == Mark::Ours));
                prop_assert!(change.delete.iter().all(|one| one.destination == destination));
                if change.create.is_some() {
                    let left = scene.table.get(destination).iter().filter(|route| {
                        !change.delete.contains(route)
                    });
                    prop_assert_eq!(left.count(), 0);
                }
            }
        }
    }
}
