//! Agents with the controllers that feed them, on the embedded API, in one process and on a stopped
//! clock.

mod faults;
mod field;
mod full;
mod identity;
mod pools;
mod restarts;
mod scene;
mod vectors;

use berth_apiserver::{Options, Server};
use berth_testkit::on_a_stopped_clock;
use scene::Scene;

/// Plays a scenario on an API server of its own, until it ends.
fn play(scenario: impl AsyncFnOnce(Scene)) {
    on_a_stopped_clock(async {
        let options = Options {
            seed: Some(7),
            ..Options::default()
        };
        let server = Server::open(options).await.unwrap();
        scenario(Scene::new(server.client()).await).await;
        server.stop().await;
    });
}
