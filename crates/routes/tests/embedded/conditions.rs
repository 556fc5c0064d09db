//! `NetworkUnavailable`, and events about podCIDRs.

use serde_json::json;

use crate::play;
use crate::scene::settle;

#[test]
fn a_node_without_a_cidr_is_left_alone() {
    play(async |scene| {
        let controller = scene.start();
        scene.node("n1", &[], "10.0.0.1").await;
        settle().await;
        assert_eq!(scene.condition("n1").await, None);
        controller.stop().await;
    });
}

#[test]
fn a_condition_of_another_author_is_taken_over() {
    play(async |scene| {
        scene.node("n1", &["10.120.0.0/24"], "10.0.0.1").await;
        let calico =
            json!({"type": "NetworkUnavailable", "status": "False", "reason": "CalicoIsUp"});
        let ready = json!({"type": "Ready", "status": "True", "reason": "KubeletReady"});
        scene
            .status("n1", json!({"conditions": [calico, ready]}))
            .await;
        let controller = scene.start();
        scene.condition_is("n1", "False", "RouteCreated").await;
        let node = scene.nodes().get("n1").await.unwrap();
        assert_eq!(node.status.unwrap().conditions.unwrap().len(), 2);
        controller.stop().await;
    });
}

#[test]
fn when_nothing_changes_nothing_is_written() {
    play(async |scene| {
        let controller = scene.start();
        scene.node("n1", &["10.120.0.0/24"], "10.0.0.1").await;
        scene.condition_is("n1", "False", "RouteCreated").await;
        settle().await;
        let before = scene
            .nodes()
            .get("n1")
            .await
            .unwrap()
            .metadata
            .resource_version;
        controller.stop().await;
        let controller = scene.start();
        settle().await;
        let after = scene
            .nodes()
            .get("n1")
            .await
            .unwrap()
            .metadata
            .resource_version;
        assert_eq!(before, after);
        controller.stop().await;
    });
}

#[test]
fn a_node_that_loses_its_cidr_loses_its_route() {
    play(async |scene| {
        let controller = scene.start();
        scene.node("n1", &["10.120.0.0/24"], "10.0.0.1").await;
        scene.node("n2", &["10.120.1.0/24"], "10.0.0.2").await;
        scene.routed("10.120.0.0/24", "10.0.0.1").await;
        // The API server refuses to change one: the node is recreated.
        scene.delete("n1").await;
        scene.node("n1", &[], "10.0.0.1").await;
        scene.unrouted("10.120.0.0/24").await;
        controller.stop().await;
    });
}

#[test]
fn a_renamed_node_keeps_its_route_without_a_gap() {
    play(async |scene| {
        let controller = scene.start();
        scene.node("old", &["10.120.0.0/24"], "10.0.0.1").await;
        scene.routed("10.120.0.0/24", "10.0.0.1").await;
        scene.node("new", &["10.120.0.0/24"], "10.0.0.1").await;
        settle().await;
        scene.delete("old").await;
        scene.condition_is("new", "False", "RouteCreated").await;
        settle().await;
        assert_eq!(scene.backend.changes().len(), 1);
        controller.stop().await;
    });
}

#[test]
fn a_duplicate_pod_cidr_stays_with_the_older_node() {
    play(async |scene| {
        let controller = scene.start();
        scene.node("a-old", &["10.120.0.0/24"], "10.0.0.1").await;
        scene.routed("10.120.0.0/24", "10.0.0.1").await;
        scene.node("b-young", &["10.120.0.0/24"], "10.0.0.2").await;
        scene
            .event("b-young", "FailedToCreateRoute", "of node a-old")
            .await;
        scene
            .condition_is("b-young", "True", "NoRouteCreated")
            .await;
        settle().await;
        assert_eq!(scene.routes()["10.120.0.0/24"], "10.0.0.1");
        scene.delete("a-old").await;
        scene.routed("10.120.0.0/24", "10.0.0.2").await;
        scene.condition_is("b-young", "False", "RouteCreated").await;
        controller.stop().await;
    });
}

#[test]
fn a_pod_cidr_outside_the_cluster_cidrs_is_reported_once() {
    play(async |scene| {
        let controller = scene.start();
        scene.node("n1", &["192.168.7.0/24"], "10.0.0.1").await;
        scene.node("n2", &["10.120.1.0/24"], "10.0.0.2").await;
        scene.routed("10.120.1.0/24", "10.0.0.2").await;
        scene
            .event("n1", "FailedToCreateRoute", "192.168.7.0/24 is outside")
            .await;
        scene.condition_is("n1", "True", "NoRouteCreated").await;
        settle().await;
        assert_eq!(scene.events("n1", "FailedToCreateRoute").await.len(), 1);
        assert_eq!(scene.routes().len(), 1);
        controller.stop().await;
    });
}

#[test]
fn a_node_without_an_address_is_routed_once_it_has_one() {
    play(async |scene| {
        let controller = scene.start();
        scene.node("n1", &["10.120.0.0/24"], "not an address").await;
        scene.event("n1", "FailedToCreateRoute", "InternalIP").await;
        scene.condition_is("n1", "True", "NoRouteCreated").await;
        scene.address("n1", "10.0.0.1").await;
        scene.condition_is("n1", "False", "RouteCreated").await;
        controller.stop().await;
    });
}
