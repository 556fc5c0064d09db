//! Nodes that claim what they can't have, and routes that are not ours.

use berth_routes::core::{CidrProblem, Decision, Hop, Mark, Standing, standing};

use crate::scene::{Scene, node, prefix, route};

const CLUSTER: &[&str] = &["10.120.0.0/16", "fd12::/32"];

fn problems(scene: &Scene, name: &str) -> Vec<CidrProblem> {
    scene
        .index
        .problems(scene.index.get(name).unwrap(), &scene.scope)
}

fn standing_of(scene: &Scene, name: &str) -> Standing {
    scene.with(|view| standing(view, scene.index.get(name).unwrap()))
}

#[test]
fn of_two_nodes_with_one_cidr_the_older_has_it() {
    let young = node("a", 2, &["10.120.0.0/24"], "10.0.0.1");
    let old = node("b", 1, &["10.120.0.0/24"], "10.0.0.2");
    let mut scene = Scene::new(vec![young, old], vec![], CLUSTER);
    scene.reconcile();
    assert_eq!(
        scene.table.get(prefix("10.120.0.0/24")),
        [route("10.120.0.0/24", "10.0.0.2")]
    );
    assert_eq!(standing_of(&scene, "a"), Standing::NotRouted);
    assert_eq!(standing_of(&scene, "b"), Standing::Routed);
    let [CidrProblem::Overlaps { node, .. }] = &problems(&scene, "a")[..] else {
        panic!("{:?}", problems(&scene, "a"));
    };
    assert_eq!(node, "b");
    assert_eq!(problems(&scene, "b"), []);
}

#[test]
fn a_cidr_that_overlaps_an_older_one_gets_no_route() {
    let old = node("a", 1, &["10.120.0.0/24"], "10.0.0.1");
    let wide = node("b", 2, &["10.120.0.0/20"], "10.0.0.2");
    let narrow = node("c", 3, &["10.120.0.128/25", "10.120.99.0/24"], "10.0.0.3");
    let mut scene = Scene::new(vec![old, wide, narrow], vec![], CLUSTER);
    scene.reconcile();
    let there: Vec<String> = scene
        .table
        .destinations()
        .map(|one| one.to_string())
        .collect();
    assert_eq!(there, ["10.120.0.0/24", "10.120.99.0/24"]);
    assert_eq!(problems(&scene, "b").len(), 1);
    assert_eq!(problems(&scene, "c").len(), 1);
}

#[test]
fn what_does_not_parse_is_named_and_the_rest_goes_on() {
    let odd = node("a", 1, &["10.120.0.0/33", "10.120.1.0/24"], "10.0.0.1");
    let mut scene = Scene::new(vec![odd], vec![], CLUSTER);
    scene.reconcile();
    assert_eq!(scene.table.routes().count(), 1);
    assert_eq!(standing_of(&scene, "a"), Standing::NotRouted);
    let error = problems(&scene, "a")[0].to_string();
    assert!(error.contains("\"10.120.0.0/33\""), "{error}");
}

#[test]
fn a_cidr_outside_of_the_cluster_cidrs_gets_no_route() {
    let outside = node("a", 1, &["10.121.0.0/24"], "10.0.0.1");
    let mut scene = Scene::new(vec![outside], vec![], CLUSTER);
    scene.reconcile();
    assert_eq!(scene.table.routes().count(), 0);
    let error = problems(&scene, "a")[0].to_string();
    assert!(error.contains("10.120.0.0/16, fd12::/32"), "{error}");
}

#[test]
fn a_repeated_cidr_is_routed_once_and_named() {
    let twice = node("a", 1, &["fd12:0:1::/64", "FD12:0:1::/64"], "10.0.0.1");
    let mut scene = Scene::new(vec![twice], vec![], CLUSTER);
    scene.reconcile();
    assert_eq!(scene.table.routes().count(), 1);
    assert_eq!(standing_of(&scene, "a"), Standing::Routed);
    assert!(matches!(
        problems(&scene, "a")[..],
        [CidrProblem::Repeated { .. }]
    ));
}

#[test]
fn a_foreign_route_in_the_way_stays_and_is_named() {
    let mut foreign = route("10.120.0.0/24", "10.9.9.9");
    foreign.mark = Mark::Foreign;
    let scene = Scene::new(
        vec![node("a", 1, &["10.120.0.0/24"], "10.0.0.1")],
        vec![foreign.clone()],
        CLUSTER,
    );
    assert_eq!(scene.decide("10.120.0.0/24"), Decision::Taken(foreign));
}

#[test]
fn a_route_to_an_unknown_hop_waits_for_a_second_look() {
    let mut scene = Scene::new(vec![], vec![route("10.120.0.0/24", "10.0.0.1")], CLUSTER);
    assert_eq!(scene.decide("10.120.0.0/24"), Decision::Confirm);
    scene.confirmed.insert(prefix("10.120.0.0/24"));
    assert!(matches!(scene.decide("10.120.0.0/24"), Decision::Change(_)));
}

#[test]
fn a_node_that_a_list_no_longer_shows_keeps_its_routes() {
    let both = vec![
        node("a", 1, &["10.120.0.0/24"], "10.0.0.1"),
        node("b", 1, &["10.120.1.0/24"], "10.0.0.2"),
    ];
    let mut scene = Scene::new(both.clone(), vec![], CLUSTER);
    scene.reconcile();
    scene.index.reset(vec![both[1].clone()]);
    assert_eq!(scene.decide("10.120.0.0/24"), Decision::Confirm);
    scene.index.reset(both);
    assert_eq!(scene.decide("10.120.0.0/24"), Decision::Keep);
    scene.index.delete("a");
    assert!(matches!(scene.decide("10.120.0.0/24"), Decision::Change(_)));
}

#[test]
fn without_marks_only_routes_to_nodes_of_ours_are_ours() {
    let unmarked = |hop: &str| {
        let mut route = route("10.120.7.0/24", hop);
        route.mark = Mark::Unmarked;
        route
    };
    let nodes = || vec![node("a", 1, &["10.120.0.0/24"], "10.0.0.1")];
    let ours = Scene::new(nodes(), vec![unmarked("10.0.0.1")], CLUSTER);
    assert!(matches!(ours.decide("10.120.7.0/24"), Decision::Change(_)));
    let mut theirs = Scene::new(nodes(), vec![unmarked("10.0.0.9")], CLUSTER);
    assert_eq!(theirs.decide("10.120.7.0/24"), Decision::Keep);
    // It was a node of ours before this process began: ours, but who knows whether it is gone.
    let hop = Hop::Address("10.0.0.9".parse().unwrap());
    theirs.recorded.insert(hop);
    assert_eq!(theirs.decide("10.120.7.0/24"), Decision::Confirm);
}
