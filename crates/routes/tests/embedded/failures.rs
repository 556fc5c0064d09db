//! Where upstream's controller fails: A to G of the specification.

use std::time::Duration;

use berth_routes::backend::{BackendError, ErrorKind};
use berth_routes::core::{Change, Mark};
use serde_json::json;
use tokio::time::Instant;

use crate::faulty::Fate;
use crate::play;
use crate::scene::{prefix, route, settle, took_less_than, until};

/// More often than the full reconcile that follows an event would try it.
fn fails_thrice() -> impl FnMut(&Change) -> Fate {
    let mut left = 3;
    move |_| {
        left -= 1;
        if left >= 0 {
            Fate::Fails(BackendError::unavailable("no"))
        } else {
            Fate::Done
        }
    }
}

#[test]
fn a_create_that_fails_is_there_in_seconds_without_an_event() {
    play(async |scene| {
        let controller = scene.start();
        scene
            .routed_node("other", "10.120.9.0/24", "10.0.0.9")
            .await;
        settle().await;
        scene.backend.on_change(fails_thrice());
        let start = Instant::now();
        scene.routed_node("n1", "10.120.0.0/24", "10.0.0.1").await;
        took_less_than(Duration::from_secs(8), start);
        controller.stop().await;
    });
}

#[test]
fn a_delete_that_fails_is_tried_again_without_an_event() {
    play(async |scene| {
        let controller = scene.start();
        scene.routed_node("n1", "10.120.0.0/24", "10.0.0.1").await;
        scene.routed_node("n2", "10.120.1.0/24", "10.0.0.2").await;
        settle().await;
        scene.backend.on_change(fails_thrice());
        let start = Instant::now();
        scene.delete("n1").await;
        scene.unrouted("10.120.0.0/24").await;
        took_less_than(Duration::from_secs(8), start);
        controller.stop().await;
    });
}

#[test]
fn an_update_after_a_thousand_nodes_is_served_at_once() {
    play(async |scene| {
        let controller = scene.start();
        for number in 0..1000 {
            let cidr = format!("10.{}.{}.0/24", 120 + number / 256, number % 256);
            let address = format!("10.0.{}.{}", number / 256, number % 256);
            scene.node(&format!("n{number}"), &[&cidr], &address).await;
        }
        until("all are routed", async || {
            (scene.routes().len() == 1000).then_some(())
        })
        .await;
        assert!(scene.backend.most_at_once() <= 200);
        let start = Instant::now();
        scene.address("n7", "10.9.9.9").await;
        scene.routed("10.120.7.0/24", "10.9.9.9").await;
        took_less_than(Duration::from_millis(200), start);
        controller.stop().await;
    });
}

#[test]
fn a_pod_cidr_that_follows_the_node_is_routed_at_once() {
    play(async |scene| {
        let controller = scene.start();
        settle().await;
        scene.node("n1", &[], "10.0.0.1").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let start = Instant::now();
        let cidrs = json!({"spec": {"podCIDR": "10.120.0.0/24", "podCIDRs": ["10.120.0.0/24"]}});
        scene.patch("n1", cidrs).await;
        scene.routed("10.120.0.0/24", "10.0.0.1").await;
        took_less_than(Duration::from_millis(200), start);
        controller.stop().await;
    });
}

/// The backend of the scene refuses a second change of a destination while one is under way, and
/// a create while there is a route.
#[test]
fn a_moved_route_is_deleted_before_it_is_created_again() {
    play(async |scene| {
        let controller = scene.start();
        scene.routed_node("n1", "10.120.0.0/24", "10.0.0.1").await;
        for round in 0..20 {
            let (old, new) = (format!("n{}", round + 1), format!("n{}", round + 2));
            let address = format!("10.0.0.{}", round + 2);
            scene.delete(&old).await;
            scene.routed_node(&new, "10.120.0.0/24", &address).await;
        }
        settle().await;
        assert_eq!(scene.routes().len(), 1);
        let failed = controller
            .metric(r#"route_controller_operations_total{kind="create",result="conflict"}"#);
        assert_eq!(failed, 0);
        assert!(!scene.backend.was_changed_twice_at_once());
        controller.stop().await;
    });
}

#[test]
fn a_cidr_that_is_written_in_another_way_is_not_touched() {
    play(async |scene| {
        let there = route("fd12:100::/64", "10.0.0.1", Mark::Ours);
        scene.backend.memory.set(vec![there]);
        // As the API server keeps it.
        scene.node("n1", &["FD12:100:0::/64"], "10.0.0.1").await;
        let controller = scene.start();
        scene.condition_is("n1", "False", "RouteCreated").await;
        for label in 0..5 {
            scene
                .patch(
                    "n1",
                    json!({"metadata": {"labels": {"round": label.to_string()}}}),
                )
                .await;
            settle().await;
        }
        assert_eq!(scene.backend.changes(), []);
        controller.stop().await;
    });
}

#[test]
fn foreign_routes_and_those_not_in_the_cluster_cidr_are_kept() {
    play(async |scene| {
        let others = vec![
            route("10.0.0.0/8", "10.0.9.1", Mark::Ours),
            route("10.112.0.0/12", "10.0.9.1", Mark::Ours),
            route("10.119.0.0/16", "10.0.9.1", Mark::Ours),
            route("10.120.77.0/24", "10.0.9.1", Mark::Foreign),
        ];
        let stale = route("10.121.0.0/24", "10.0.9.2", Mark::Ours);
        scene
            .backend
            .memory
            .set([others.clone(), vec![stale]].concat());
        scene.node("n1", &["10.120.0.0/24"], "10.0.0.1").await;
        let controller = scene.start();
        scene.routed("10.120.0.0/24", "10.0.0.1").await;
        scene.unrouted("10.121.0.0/24").await;
        settle().await;
        let left = scene.backend.memory.routes();
        assert!(others.iter().all(|route| left.contains(route)), "{left:?}");
        assert_eq!(left.len(), 5);
        let foreign = controller.metric(r#"route_controller_routes{owner="foreign"}"#);
        assert_eq!(foreign, 1);
        controller.stop().await;
    });
}

#[test]
fn a_bad_route_holds_up_no_other() {
    play(async |scene| {
        scene.backend.on_change(|change| {
            if change.destination == prefix("10.120.0.0/24") {
                Fate::Fails(BackendError::new(ErrorKind::Refused, "no such gateway"))
            } else {
                Fate::Done
            }
        });
        let controller = scene.start();
        scene.node("n0", &["10.120.0.0/24"], "10.0.0.1").await;
        settle().await;
        let start = Instant::now();
        scene.routed_node("n1", "10.120.1.0/24", "10.0.0.2").await;
        took_less_than(Duration::from_millis(200), start);
        scene.condition_is("n0", "True", "NoRouteCreated").await;
        let note = scene
            .event("n0", "FailedToCreateRoute", "10.120.0.0/24")
            .await;
        assert!(note.starts_with("Could not create route "), "{note}");
        assert!(note.contains(" for node n0 after "), "{note}");
        assert!(note.ends_with(": no such gateway"), "{note}");
        // And it is not tried all the time.
        let before = scene.backend.changes().len();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let tries = scene.backend.changes().len() - before;
        assert!((30..=120).contains(&tries), "{tries} in an hour");
        controller.stop().await;
    });
}
