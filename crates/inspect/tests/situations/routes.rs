//! Routes, as the route controller reports them.

use berth_inspect::check::check;

use super::scene::Scene;

fn found(scene: &Scene) -> Vec<(String, String)> {
    let findings = check(&scene.facts());
    findings.into_iter().map(|one| (one.object, one.problem)).collect()
}

fn routed() -> Scene {
    let mut scene = Scene::healthy();
    scene.routed(
        "n1",
        "10.244.1.0/24",
        Some(("False", "RouteController created a route")),
    );
    scene.routed(
        "n2",
        "10.244.2.0/24",
        Some(("False", "RouteController created a route")),
    );
    scene
}

#[test]
fn nodes_that_are_routed_agree() {
    assert_eq!(found(&routed()), []);
}

#[test]
fn a_node_without_a_route_is_found_after_a_while() {
    let mut scene = routed();
    scene.routed("n2", "10.244.2.0/24", Some(("True", "the quota is reached")));
    let problem = "has no route to 10.244.2.0/24: the quota is reached";
    assert_eq!(found(&scene), [("node n2".to_owned(), problem.to_owned())]);
    scene.transition("n2", "2026-11-16T00:00:00Z");
    assert_eq!(found(&scene), [], "a new node is routed in a moment");
}

#[test]
fn a_node_that_the_route_controller_passes_over_is_found() {
    let mut scene = routed();
    scene.routed("n2", "10.244.2.0/24", None);
    let problem = "has the podCIDRs 10.244.2.0/24, and no route controller reports on it";
    assert_eq!(found(&scene), [("node n2".to_owned(), problem.to_owned())]);
    // If it reports on no node, there is no route controller.
    scene.routed("n1", "10.244.1.0/24", None);
    assert_eq!(found(&scene), []);
}

#[test]
fn two_nodes_on_one_pod_cidr_are_found() {
    let mut scene = routed();
    scene.routed("n2", "10.244.1.128/25", Some(("False", "")));
    let problem =
        "has the podCIDR 10.244.1.128/25, and node n1 has 10.244.1.0/24: a route leads to only one";
    assert_eq!(found(&scene), [("node n2".to_owned(), problem.to_owned())]);
}
