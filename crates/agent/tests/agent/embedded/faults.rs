//! An API server that fails, or is away.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use berth_testkit::until;
use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::play;
use super::scene::{Scene, add, del, settle};

/// The way to the API server, which can be cut.
fn cut(client: Client, away: Arc<AtomicBool>) -> Client {
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        let writes = request.method() != http::Method::GET;
        let away = away.load(Ordering::Relaxed);
        async move {
            if away && writes {
                return Err(io::Error::other("nobody answers"));
            }
            client.send(request).await.map_err(io::Error::other)
        }
    });
    Client::new(service, "default")
}

#[test]
fn failed_nnc_writes_mark_no_further_addresses_for_release() {
    play(async |scene: Scene| {
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/16"]})).await;
        scene.node("n1").await;
        let directory = tempfile::tempdir().unwrap();
        let away = Arc::new(AtomicBool::new(false));
        let client = cut(scene.client.clone(), Arc::clone(&away));
        let running = scene.start_on(client.clone(), "n1", directory.path()).await;
        scene.create_pods("n1", 0..25).await;
        scene.has("n1", 48).await;
        until("the agent has them", async || {
            (running.agent.status().pool.free == 48).then_some(())
        })
        .await;
        away.store(true, Ordering::Relaxed);
        scene.delete_pods(5..25).await;
        settle().await;
        let pool = running.agent.status().pool;
        assert_eq!((pool.releasing, pool.free), (32, 16));
        // Nothing more is marked while it fails, and pods come and go.
        add(&running.agent, 1).await.unwrap();
        settle().await;
        assert_eq!(del(&running.agent, 1), 1);
        settle().await;
        assert_eq!(running.agent.status().pool.releasing, 32);
        // Whoever dies now has said what it gives back: the next one gives back the same.
        running.kill().await;
        let running = scene.start_on(client, "n1", directory.path()).await;
        settle().await;
        assert_eq!(running.agent.status().pool.releasing, 32);
        // Demand comes back before the server does: what was marked still goes, and as many more
        // are asked for.
        scene.create_pods("n1", 30..50).await;
        settle().await;
        away.store(false, Ordering::Relaxed);
        scene.has("n1", 48).await;
        until("nothing is left of it", async || {
            let pool = running.agent.status().pool;
            (pool.releasing == 0 && pool.free + pool.cooling_down == 48).then_some(())
        })
        .await;
    });
}
