//! Quotas, throttling, wrong credentials, lost answers, garbage.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_routes::backend::{BackendError, ErrorKind};
use berth_routes::core::Mark;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use crate::faulty::Fate;
use crate::play;
use crate::scene::{Scene, route, settle, took_less_than, until};

async fn nodes(scene: &Scene, count: usize) {
    for number in 0..count {
        let cidr = format!("10.120.{number}.0/24");
        scene
            .node(&format!("n{number}"), &[&cidr], &format!("10.0.0.{number}"))
            .await;
    }
}

async fn all_routed(scene: &Scene, count: usize) {
    until(&format!("{count} are routed"), async || {
        (scene.routes().len() == count).then_some(())
    })
    .await;
}

#[test]
fn retry_after_is_honoured_by_all() {
    play(async |scene| {
        let retry_after = Some(Duration::from_secs(30));
        let mut left = 1;
        scene.backend.on_change(move |_| {
            left -= 1;
            let kind = ErrorKind::Throttled { retry_after };
            if left >= 0 {
                Fate::Fails(BackendError::new(kind, "slow down"))
            } else {
                Fate::Done
            }
        });
        let controller = scene.start();
        settle().await;
        scene
            .node("first", &["10.120.200.0/24"], "10.0.0.200")
            .await;
        until("it was tried", async || {
            (!scene.backend.changes().is_empty()).then_some(())
        })
        .await;
        let throttled = scene.backend.changes()[0].0;
        // Until the answer is there.
        tokio::time::sleep(Duration::from_millis(100)).await;
        nodes(&scene, 20).await;
        all_routed(&scene, 21).await;
        let next = scene.backend.changes()[1].0;
        assert!(
            next - throttled >= Duration::from_secs(30),
            "{:?}",
            next - throttled
        );
        controller.stop().await;
    });
}

#[test]
fn a_thousand_throttled_creates_all_come_through() {
    play(async |scene| {
        let mut tokens = (Instant::now(), 100.0_f64);
        // Ten a second, and a burst of a hundred.
        scene.backend.on_change(move |_| {
            let now = Instant::now();
            tokens.1 = (tokens.1 + 10.0 * (now - tokens.0).as_secs_f64()).min(100.0);
            tokens.0 = now;
            if tokens.1 < 1.0 {
                let kind = ErrorKind::Throttled { retry_after: None };
                return Fate::Fails(BackendError::new(kind, "RequestLimitExceeded"));
            }
            tokens.1 -= 1.0;
            Fate::Done
        });
        nodes(&scene, 250).await;
        let controller = scene.start();
        all_routed(&scene, 250).await;
        let calls = scene.backend.changes().len();
        assert!(calls < 1500, "{calls} calls for 250 routes");
        controller.stop().await;
    });
}

#[test]
fn a_quota_is_slow_and_visible_and_a_route_that_goes_makes_room() {
    play(async |scene| {
        let memory = scene.backend.memory.clone();
        scene.backend.on_change(move |change| {
            if change.create.is_some() && memory.routes().len() >= 5 {
                return Fate::Fails(BackendError::new(ErrorKind::Quota, "RoutesExhausted: 5"));
            }
            Fate::Done
        });
        let controller = scene.start();
        nodes(&scene, 5).await;
        all_routed(&scene, 5).await;
        scene.node("late", &["10.120.99.0/24"], "10.0.0.99").await;
        scene.condition_is("late", "True", "NoRouteCreated").await;
        scene
            .event("late", "FailedToCreateRoute", "RoutesExhausted")
            .await;
        let before = scene.backend.changes().len();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        let tries = scene.backend.changes().len() - before;
        assert!((8..40).contains(&tries), "{tries} in an hour");
        let start = Instant::now();
        scene.delete("n0").await;
        scene.routed("10.120.99.0/24", "10.0.0.99").await;
        took_less_than(Duration::from_secs(1), start);
        scene.condition_is("late", "False", "RouteCreated").await;
        controller.stop().await;
    });
}

#[test]
fn wrong_credentials_are_said_and_not_tried_all_the_time() {
    play(async |scene| {
        let denied = || BackendError::new(ErrorKind::Unauthorized, "the credentials are wrong");
        scene.backend.on_list(move || Some(denied()));
        nodes(&scene, 3).await;
        let controller = scene.start();
        until("it says why", async || {
            let why = controller.readiness.not_ready();
            (why == ["routes: the credentials are wrong"]).then_some(())
        })
        .await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert!(
            scene.backend.lists() < 30,
            "{} lists in an hour",
            scene.backend.lists()
        );
        scene.backend.on_list(|| None);
        all_routed(&scene, 3).await;
        assert!(controller.readiness.not_ready().is_empty());
        controller.stop().await;
    });
}

#[test]
fn lost_answers_end_with_the_wanted_table() {
    play(async |scene| {
        let random = Mutex::new(StdRng::seed_from_u64(3));
        scene
            .backend
            .on_change(move |_| match random.lock().random_range(0..4) {
                0 => Fate::Lost,
                1 => Fate::Fails(BackendError::unavailable("it never arrived")),
                _ => Fate::Done,
            });
        let controller = scene.start();
        nodes(&scene, 60).await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        for number in 0..30 {
            scene.delete(&format!("n{number}")).await;
        }
        all_routed(&scene, 30).await;
        settle().await;
        let expected: BTreeMap<String, String> = (30..60)
            .map(|number| (format!("10.120.{number}.0/24"), format!("10.0.0.{number}")))
            .collect();
        assert_eq!(scene.routes(), expected);
        controller.stop().await;
    });
}

#[test]
fn a_backend_that_lists_a_route_twice_has_it_once() {
    play(async |scene| {
        let there = route("10.120.0.0/24", "10.0.0.0", Mark::Ours);
        scene.backend.memory.set(vec![there.clone(), there]);
        nodes(&scene, 1).await;
        let controller = scene.start();
        scene.condition_is("n0", "False", "RouteCreated").await;
        settle().await;
        assert_eq!(scene.backend.changes(), []);
        controller.stop().await;
    });
}

#[test]
fn a_list_that_fails_is_tried_again_without_an_event() {
    play(async |scene| {
        let mut left = 3;
        scene.backend.on_list(move || {
            left -= 1;
            (left >= 0).then(|| BackendError::unavailable("garbage instead of routes"))
        });
        nodes(&scene, 2).await;
        let controller = scene.start();
        all_routed(&scene, 2).await;
        let failed = controller
            .metric(r#"route_controller_route_sync_total{outcome="error",trigger="node_change"}"#);
        assert_eq!(failed, 3);
        controller.stop().await;
    });
}
