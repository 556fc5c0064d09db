//! The scenarios of `embedded` with an allocator that is a service, behind TLS, instead of a ledger
//! in the controllers' process; and what clusters do to each other that share one. Those that wait
//! for many minutes are played there alone: here the clock runs.

#[path = "embedded/containers.rs"]
mod containers;
mod lost;
#[path = "embedded/restarts.rs"]
mod restarts;
mod sharing;
#[path = "embedded/subnets.rs"]
mod subnets;
#[path = "embedded/waiting.rs"]
mod waiting;

use std::sync::Arc;

use berth_apiserver::{Options, Server};
use berth_ledger::store::{MemoryStore, Store};
use berth_nodenet::service::Limits;

use crate::embedded::scene::{self, Pace, Scene, Service};
use crate::service::world::World;

/// Plays a scenario on an API server and with an allocator of its own, until it ends.
fn play(scenario: impl AsyncFnOnce(Scene)) {
    play_with(async |stage: Stage| {
        let (server, scene) = stage.cluster("scene").await;
        scenario(scene).await;
        server.stop().await;
    });
}

fn play_with(scenario: impl AsyncFnOnce(Stage)) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(async {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
        let world = World::over(Arc::clone(&store), Limits::default()).await;
        scenario(Stage { world, store }).await;
    });
}

/// One service, for any number of clusters.
struct Stage {
    world: World,
    store: Arc<dyn Store>,
}

impl Stage {
    /// A cluster that the service knows by this name.
    async fn cluster(&self, name: &str) -> (Server, Scene) {
        let server = Server::open(Options::default()).await.unwrap();
        let scene = Scene::new(server.client(), Arc::clone(&self.store), Pace::Running).await;
        let service = Service {
            allocator: Arc::new(self.world.client(name)),
            cluster: name.to_owned(),
            network: "prod".to_owned(),
        };
        (server, scene.through(service))
    }
}
