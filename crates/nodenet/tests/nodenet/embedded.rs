//! The controllers on the embedded API, in one process and on a stopped clock.
//!
//! What is shown is in the scenarios, each a function of a client to a cluster of its own: they say
//! nothing about which API server that is.

mod agents;
mod bad_input;
mod containers;
mod families;
mod faults;
mod pod_cidrs;
mod reclaim;
mod restarts;
pub mod scene;
mod subnet_states;
mod subnets;
mod waiting;

use std::sync::Arc;

use berth_apiserver::{Options, Server};
use berth_ledger::store::MemoryStore;
use berth_testkit::on_a_stopped_clock;
use scene::{Pace, Scene};

/// Plays a scenario on an API server of its own, until it ends.
fn play(scenario: impl AsyncFnOnce(Scene)) {
    play_with(7, scenario);
}

fn play_with(seed: u64, scenario: impl AsyncFnOnce(Scene)) {
    on_a_stopped_clock(async {
        let options = Options {
            seed: Some(seed),
            ..Options::default()
        };
        let server = Server::open(options).await.unwrap();
        let store = Arc::new(MemoryStore::default());
        scenario(Scene::new(server.client(), store, Pace::Stopped).await).await;
        server.stop().await;
    });
}
