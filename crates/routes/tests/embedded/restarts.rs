//! Controllers that are killed, API servers that are away or show too little.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use berth_routes::controller::Options;
use bytes::Bytes;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use parking_lot::Mutex;

use crate::play;
use crate::scene::{Scene, settle, until};

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

/// A way to the API server that shows no nodes in the next lists.
fn showing_nothing(client: Client, lists: Arc<AtomicUsize>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, lists) = (client.clone(), lists.clone());
        async move {
            let list = request.uri().path() == "/api/v1/nodes"
                && !request.uri().query().unwrap_or_default().contains("watch");
            let left = |count: usize| count.checked_sub(1);
            if list
                && lists
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left)
                    .is_ok()
            {
                let empty = r#"{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}"#;
                let body = Body::from(Bytes::from(empty));
                return Ok::<_, io::Error>(Response::new(body));
            }
            let answer = client.send(request).await.map_err(io::Error::other)?;
            Ok(answer)
        }
    });
    Client::new(service, "default")
}

#[test]
fn a_list_that_is_suddenly_empty_deletes_nothing() {
    play(async |scene| {
        nodes(&scene, 10).await;
        let controller = scene.start();
        all_routed(&scene, 10).await;
        settle().await;
        controller.stop().await;
        let changes = scene.backend.changes().len();
        // The first list of the watch, and the second look.
        let lists = Arc::new(AtomicUsize::new(2));
        let client = showing_nothing(scene.client.clone(), lists.clone());
        let controller = scene.start_with(Options {
            client,
            ..scene.options()
        });
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(lists.load(Ordering::SeqCst), 0);
        assert_eq!(scene.backend.changes().len(), changes);
        assert_eq!(scene.routes().len(), 10);
        controller.stop().await;
    });
}

#[test]
fn a_cluster_that_is_really_empty_loses_its_routes() {
    play(async |scene| {
        nodes(&scene, 5).await;
        let controller = scene.start();
        all_routed(&scene, 5).await;
        controller.stop().await;
        for number in 0..5 {
            scene.delete(&format!("n{number}")).await;
        }
        let controller = scene.start();
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(scene.routes().len(), 5, "not before a second look");
        all_routed(&scene, 0).await;
        controller.stop().await;
    });
}

#[test]
fn a_deleted_node_loses_its_route_within_a_second() {
    play(async |scene| {
        nodes(&scene, 5).await;
        let controller = scene.start();
        all_routed(&scene, 5).await;
        settle().await;
        let start = tokio::time::Instant::now();
        scene.delete("n0").await;
        scene.unrouted("10.120.0.0/24").await;
        assert!(start.elapsed() < Duration::from_secs(1));
        controller.stop().await;
    });
}

/// A way to the API server that can be cut.
fn cut(client: Client, away: Arc<Mutex<bool>>) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, away) = (client.clone(), away.clone());
        async move {
            if *away.lock() {
                return Err(io::Error::other("the API server is away"));
            }
            client.send(request).await.map_err(io::Error::other)
        }
    });
    Client::new(service, "default")
}

#[test]
fn an_api_server_that_is_away_changes_nothing() {
    play(async |scene| {
        let away = Arc::new(Mutex::new(false));
        let client = cut(scene.client.clone(), away.clone());
        nodes(&scene, 5).await;
        let controller = scene.start_with(Options {
            client,
            ..scene.options()
        });
        all_routed(&scene, 5).await;
        settle().await;
        let changes = scene.backend.changes().len();
        *away.lock() = true;
        tokio::time::sleep(Duration::from_secs(600)).await;
        *away.lock() = false;
        tokio::time::sleep(Duration::from_secs(600)).await;
        assert_eq!(scene.backend.changes().len(), changes);
        scene.node("late", &["10.120.99.0/24"], "10.0.0.99").await;
        scene.routed("10.120.99.0/24", "10.0.0.99").await;
        controller.stop().await;
    });
}

#[test]
fn killed_controllers_still_end_with_the_right_routes() {
    play(async |scene| {
        for round in 0..40_u64 {
            let controller = scene.start();
            let number = round % 20;
            if round < 20 {
                let cidr = format!("10.120.{number}.0/24");
                scene
                    .node(&format!("n{number}"), &[&cidr], &format!("10.0.0.{number}"))
                    .await;
            } else if number % 2 == 0 {
                scene.delete(&format!("n{number}")).await;
            }
            tokio::time::sleep(Duration::from_millis(17 * (round % 9))).await;
            controller.kill();
        }
        let controller = scene.start();
        all_routed(&scene, 10).await;
        settle().await;
        let odd = |number: &u32| number % 2 == 1;
        let expected: Vec<String> = (0..20)
            .filter(odd)
            .map(|number| format!("10.120.{number}.0/24"))
            .collect();
        let mut found: Vec<String> = scene.routes().into_keys().collect();
        found.sort_by_key(|one| one.len());
        assert_eq!(found.len(), expected.len());
        assert!(expected.iter().all(|one| found.contains(one)));
        controller.stop().await;
    });
}
