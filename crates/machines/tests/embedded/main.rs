//! Machine IPAM on the embedded API, in one process and on a stopped clock, with the subnet
//! controller that registers its Subnets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod allocation;
mod bad_input;
mod claims;
mod defects;
mod losses;
mod scene;

use std::sync::Arc;

use berth_apiserver::{Options, Server};
use berth_ledger::store::MemoryStore;
use scene::Scene;

/// Plays a scenario on an API server of its own, until it ends.
fn play(scenario: impl AsyncFnOnce(Scene)) {
    // What it said is shown when it fails.
    let filter = tracing_subscriber::EnvFilter::new("berth_machines=debug,berth_nodenet=info");
    let said = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer();
    let _said = tracing::subscriber::set_default(said.finish());
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let options = Options {
            seed: Some(7),
            ..Options::default()
        };
        let server = Server::open(options).await.unwrap();
        let store = Arc::new(MemoryStore::default());
        scenario(Scene::new(server.client(), store).await).await;
        server.stop().await;
    });
}
