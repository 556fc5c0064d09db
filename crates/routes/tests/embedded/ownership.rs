//! Where routes can't be marked: what is or was a node of ours, and nothing else, is ours.

use std::io;
use std::time::Duration;

use berth_routes::core::Mark;
use http::Request;
use kube::Client;
use kube::client::Body;
use serde_json::json;

use crate::faulty::Faulty;
use crate::play;
use crate::scene::{Scene, prefix, route, settle};

async fn subnet(scene: &Scene, name: &str, cidr: &str) {
    let subnet = json!({
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "Subnet",
        "metadata": {"name": name},
        "spec": {"use": "node-cidrs", "cidrs": [cidr]},
    });
    let subnet = serde_json::from_value(subnet).unwrap();
    let api = kube::Api::<berth_api::Subnet>::all(scene.client.clone());
    api.create(&kube::api::PostParams::default(), &subnet)
        .await
        .unwrap();
}

#[test]
fn a_route_of_another_cluster_on_the_same_router_stays() {
    play(async |scene| {
        let scene = scene.with_backend(Faulty::unmarked());
        let theirs = route("10.125.0.0/24", "10.0.77.1", Mark::Ours);
        scene.backend.memory.set(vec![theirs.clone()]);
        scene.node("n1", &["10.120.0.0/24"], "10.0.0.1").await;
        scene.node("n2", &["10.120.1.0/24"], "10.0.0.2").await;
        let controller = scene.start();
        scene.routed("10.120.0.0/24", "10.0.0.1").await;
        scene.delete("n1").await;
        scene.unrouted("10.120.0.0/24").await;
        settle().await;
        assert!(scene.backend.memory.routes().contains(&theirs));
        controller.stop().await;
    });
}

#[test]
fn a_node_that_went_while_nobody_watched_loses_its_route() {
    play(async |scene| {
        let scene = scene.with_backend(Faulty::unmarked());
        let controller = scene.start();
        for number in 0..3 {
            let cidr = format!("10.120.{number}.0/24");
            scene
                .node(&format!("n{number}"), &[&cidr], &format!("10.0.0.{number}"))
                .await;
            scene.routed(&cidr, &format!("10.0.0.{number}")).await;
        }
        controller.kill();
        scene.delete("n1").await;
        let controller = scene.start();
        scene.unrouted("10.120.1.0/24").await;
        settle().await;
        assert_eq!(scene.routes().len(), 2);
        controller.stop().await;
    });
}

#[test]
fn the_cluster_cidrs_are_those_of_all_node_cidrs_subnets() {
    play(async |scene| {
        subnet(&scene, "nodes", "10.120.0.0/16").await;
        let mut options = scene.options();
        options.cluster_cidrs = None;
        let controller = scene.start_with(options);
        scene.node("n1", &["10.120.0.0/24"], "10.0.0.1").await;
        scene.node("n2", &["10.121.0.0/24"], "10.0.0.2").await;
        scene.routed("10.120.0.0/24", "10.0.0.1").await;
        settle().await;
        assert!(!scene.routes().contains_key("10.121.0.0/24"));
        subnet(&scene, "more-nodes", "10.121.0.0/16").await;
        scene.routed("10.121.0.0/24", "10.0.0.2").await;
        controller.stop().await;
    });
}

#[test]
fn a_foreign_route_in_the_way_is_named_and_waited_for() {
    play(async |scene| {
        scene
            .backend
            .memory
            .set(vec![route("10.120.0.0/24", "10.9.9.9", Mark::Foreign)]);
        scene.node("n1", &["10.120.0.0/24"], "10.0.0.1").await;
        let controller = scene.start();
        scene
            .event("n1", "FailedToCreateRoute", "10.9.9.9 that is not ours")
            .await;
        scene.condition_is("n1", "True", "NoRouteCreated").await;
        assert_eq!(scene.backend.changes(), []);
        scene.backend.memory.set(Vec::new());
        // Without an event.
        scene.routed("10.120.0.0/24", "10.0.0.1").await;
        scene.condition_is("n1", "False", "RouteCreated").await;
        controller.stop().await;
    });
}

#[test]
fn a_blackhole_of_ours_goes() {
    play(async |scene| {
        let mut blackhole = route("10.120.5.0/24", "10.9.9.9", Mark::Ours);
        blackhole.usable = false;
        scene.backend.memory.set(vec![blackhole]);
        scene.node("n1", &["10.120.0.0/24"], "10.0.0.1").await;
        let controller = scene.start();
        scene.unrouted(&prefix("10.120.5.0/24").to_string()).await;
        controller.stop().await;
    });
}

#[test]
fn nodes_that_are_known_before_the_subnets_are_not_warned_of() {
    play(async |scene| {
        scene.node("n1", &["10.120.0.0/24"], "10.0.0.1").await;
        let mut options = scene.options();
        options.cluster_cidrs = None;
        options.client = slow_subnets(scene.client.clone());
        subnet(&scene, "nodes", "10.120.0.0/16").await;
        let controller = scene.start_with(options);
        scene.routed("10.120.0.0/24", "10.0.0.1").await;
        settle().await;
        assert_eq!(
            scene.events("n1", "FailedToCreateRoute").await,
            Vec::<String>::new()
        );
        controller.stop().await;
    });
}

/// A way to the API server on which Subnets come long after Nodes.
fn slow_subnets(client: Client) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            if request.uri().path().contains("subnets") {
                tokio::time::sleep(Duration::from_secs(20)).await;
            }
            client.send(request).await.map_err(io::Error::other)
        }
    });
    Client::new(service, "default")
}
