//! What wakes the controller, and how often it may.

use std::time::Duration;

use serde_json::json;

use crate::play;
use crate::scene::{settle, until};

#[test]
fn updates_of_other_fields_put_nothing_into_the_queue() {
    play(async |scene| {
        let controller = scene.start();
        scene.node("n1", &["10.120.0.0/24"], "10.0.0.1").await;
        scene.condition_is("n1", "False", "RouteCreated").await;
        settle().await;
        let adds = r#"workqueue_adds_total{name="Routes"}"#;
        let before = controller.metric(adds);
        for round in 0..10 {
            scene
                .patch(
                    "n1",
                    json!({"metadata": {"labels": {"round": round.to_string()}}}),
                )
                .await;
            scene
                .patch("n1", json!({"spec": {"unschedulable": round % 2 == 0}}))
                .await;
            scene
                .status("n1", json!({"capacity": {"pods": round.to_string()}}))
                .await;
        }
        settle().await;
        assert_eq!(controller.metric(adds), before);
        scene.address("n1", "10.0.0.2").await;
        until("there is an item", async || {
            (controller.metric(adds) > before).then_some(())
        })
        .await;
        controller.stop().await;
    });
}

#[test]
fn the_queue_works_when_a_node_comes() {
    play(async |scene| {
        let controller = scene.start();
        settle().await;
        let works = r#"workqueue_work_duration_seconds_count{name="Routes"}"#;
        let before = controller.metric(works);
        scene.node("n1", &["10.120.0.0/24"], "10.0.0.1").await;
        scene.condition_is("n1", "False", "RouteCreated").await;
        until("work was done", async || {
            (controller.metric(works) > before).then_some(())
        })
        .await;
        let running = controller.metric(r#"running_managed_controllers{name="route"}"#);
        assert_eq!(running, 1);
        let created = controller.metric("route_controller_route_creation_delay_seconds_count");
        assert_eq!(created, 1);
        settle().await;
        let synced = controller
            .metric(r#"route_controller_route_sync_total{outcome="noop",trigger="node_change"}"#);
        assert!(synced >= 1, "{synced}");
        controller.stop().await;
    });
}

#[test]
fn an_idle_hour_costs_no_list() {
    play(async |scene| {
        let controller = scene.start();
        scene.node("n1", &["10.120.0.0/24"], "10.0.0.1").await;
        settle().await;
        let before = scene.backend.lists();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(scene.backend.lists() - before, 0);
        assert_eq!(scene.backend.changes().len(), 1);
        controller.stop().await;
    });
}

#[test]
fn everything_is_reconciled_once_in_12_to_24_hours() {
    play(async |scene| {
        let controller = scene.start();
        scene.node("n1", &["10.120.0.0/24"], "10.0.0.1").await;
        settle().await;
        let before = scene.backend.lists();
        tokio::time::sleep(Duration::from_secs(10 * 24 * 3600)).await;
        let lists = scene.backend.lists() - before;
        assert!((10..=20).contains(&lists), "{lists} in ten days");
        let periodic = controller
            .metric(r#"route_controller_route_sync_total{outcome="noop",trigger="periodic"}"#);
        assert!(periodic >= 10, "{periodic}");
        controller.stop().await;
    });
}

#[test]
fn an_address_that_flaps_costs_a_bounded_number_of_calls() {
    play(async |scene| {
        let controller = scene.start();
        scene.node("n1", &["10.120.0.0/24"], "10.0.0.1").await;
        settle().await;
        let (lists, changes) = (scene.backend.lists(), scene.backend.changes().len());
        for round in 0..3600 {
            scene
                .address("n1", &format!("10.0.0.{}", 1 + round % 2))
                .await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let lists = scene.backend.lists() - lists;
        let changes = scene.backend.changes().len() - changes;
        assert!(
            (300..=361).contains(&lists),
            "{lists} full reconciles in an hour"
        );
        assert!(changes <= 370, "{changes} changes in an hour");
        scene.routed("10.120.0.0/24", "10.0.0.2").await;
        let listed = scene.backend.listed_at();
        let gaps = listed.windows(2).map(|pair| pair[1] - pair[0]);
        assert!(gaps.skip(1).all(|gap| gap >= Duration::from_secs(10)));
        controller.stop().await;
    });
}

#[test]
fn a_route_removed_by_hand_comes_back_after_the_next_node_event() {
    play(async |scene| {
        let controller = scene.start();
        scene.node("n1", &["10.120.0.0/24"], "10.0.0.1").await;
        scene.routed("10.120.0.0/24", "10.0.0.1").await;
        settle().await;
        scene.backend.memory.set(Vec::new());
        settle().await;
        assert_eq!(scene.routes().len(), 0);
        scene.node("n2", &["10.120.1.0/24"], "10.0.0.2").await;
        scene.routed("10.120.0.0/24", "10.0.0.1").await;
        controller.stop().await;
    });
}
