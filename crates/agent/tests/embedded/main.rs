//! Agents with the controllers that feed them, on the embedded API, in one process and on a stopped
//! clock.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod faults;
mod field;
mod full;
mod identity;
mod pools;
mod restarts;
mod scene;
mod vectors;

use berth_apiserver::{Options, Server};
use scene::Scene;

/// Plays a scenario on an API server of its own, until it ends.
fn play(scenario: impl AsyncFnOnce(Scene)) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let options = Options {
            seed: Some(7),
            ..Options::default()
        };
        let server = Server::open(options).await.unwrap();
        scenario(Scene::new(server.client()).await).await;
        server.stop().await;
    });
}
