//! Requests that never arrive, answers that are lost, controllers that are two and die at any
//! moment: nothing is given twice, nothing is lost, and when it is quiet again everything is as it
//! should be.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use berth_api::NodeNetworkConfig;
use berth_nodenet::controllers::{Controller, DEFAULT_NODE_GRACE};
use kube::api::ListParams;
use kube::client::Body;
use kube::{Client, ResourceExt};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use super::scene::{Running, Scene, addresses, containers, names_of, settle};
use super::{play_with, scene};

/// One request in so many does not arrive, and the answer to one in so many is lost.
const FAULTS: u32 = 12;

fn flaky(client: Client, seed: u64) -> Client {
    let random = Arc::new(Mutex::new(StdRng::seed_from_u64(seed)));
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let client = client.clone();
        let fate = random.lock().unwrap().random_range(0..FAULTS);
        async move {
            if fate == 0 {
                return Err(io::Error::other("it never arrived"));
            }
            let answer = client.send(request).await.map_err(io::Error::other);
            if fate == 1 {
                return Err(io::Error::other("the answer was lost"));
            }
            answer
        }
    });
    Client::new(service, "default")
}

struct Run<'a> {
    scene: &'a Scene,
    random: StdRng,
    controllers: Vec<Running>,
    started: u64,
}

impl Run<'_> {
    fn start(&mut self) {
        self.started += 1;
        let client = flaky(self.scene.client.clone(), self.random.random());
        let controller =
            self.scene
                .start_on(client, Controller::on_by_default(), DEFAULT_NODE_GRACE);
        self.controllers.push(controller);
    }

    fn any_node(&mut self) -> String {
        format!("n{}", self.random.random_range(0..10))
    }

    async fn step(&mut self) {
        match self.random.random_range(0..10) {
            0 => {
                let at = self.random.random_range(0..self.controllers.len());
                self.controllers.remove(at).kill();
                self.start();
            }
            1..=3 => self.node_comes_or_goes().await,
            _ => self.agent_asks().await,
        }
        let pause = self.random.random_range(0..40);
        tokio::time::sleep(Duration::from_millis(pause)).await;
    }

    async fn node_comes_or_goes(&mut self) {
        let name = self.any_node();
        let there = self.scene.nodes().get_opt(&name).await.unwrap();
        match there {
            Some(_) => self.scene.delete(&self.scene.nodes(), &name).await,
            None => drop(self.scene.node(&name).await),
        }
    }

    /// More, fewer, some back: as agents do, it names what it has and does not use.
    async fn agent_asks(&mut self) {
        let name = self.any_node();
        let nnc = self.scene.nncs().get_opt(&name).await.unwrap();
        let Some(nnc) = nnc.filter(|nnc| !containers(nnc).is_empty()) else {
            return;
        };
        let back = self.random.random_range(0..4);
        let names: Vec<String> = names_of(&containers(&nnc)[0]).into_iter().take(back).collect();
        let count: i64 = self.random.random_range(0..12);
        let spec = json!({"spec": {"requestedIPCount": count, "ipsNotInUse": names}});
        let patch = kube::api::Patch::Merge(spec);
        let asked = self
            .scene
            .nncs()
            .patch(&name, &kube::api::PatchParams::default(), &patch)
            .await;
        if let Err(error) = asked {
            assert!(error.to_string().contains("not found"), "{error}");
        }
    }
}

fn run(seed: u64) {
    play_with(seed, async |scene: Scene| {
        // Not enough for all that ten nodes may ask for.
        scene
            .subnet("pods", json!({"cidrs": ["10.64.0.0/26"], "reuseDelay": "1s"}))
            .await;
        let mut run = Run {
            scene: &scene,
            random: StdRng::seed_from_u64(seed),
            controllers: Vec::new(),
            started: 0,
        };
        run.start();
        run.start();
        scene.ready("pods").await;
        for _ in 0..150 {
            run.step().await;
            scene.check_no_address_is_given_twice().await;
        }
        assert!(run.started > 5, "controllers die in every run");
        for controller in run.controllers {
            controller.stop().await;
        }
        let _last = scene.start();
        settle().await;
        // What was made for an NNC that was gone before it could be written is taken back in the
        // end.
        tokio::time::sleep(DEFAULT_NODE_GRACE + Duration::from_secs(120)).await;
        check_all_is_as_it_should_be(&scene).await;
    });
}

async fn check_all_is_as_it_should_be(scene: &Scene) {
    scene.check_no_address_is_given_twice().await;
    let nodes = scene.nodes().list(&ListParams::default()).await.unwrap();
    let nncs: Vec<NodeNetworkConfig> =
        scene.nncs().list(&ListParams::default()).await.unwrap().items;
    let with_config: Vec<String> = nncs.iter().map(ResourceExt::name_any).collect();
    assert!(nodes.iter().map(ResourceExt::name_any).eq(with_config));
    let mut listed = 0;
    let mut short = false;
    for nnc in &nncs {
        let has = i64::try_from(addresses(nnc).len()).unwrap();
        listed += usize::try_from(has).unwrap() + containers(nnc).len();
        assert!(scene::status(nnc).status.is_some(), "{nnc:?}");
        short |= containers(nnc).is_empty() || has < nnc.spec.requested_ip_count;
    }
    assert_eq!(scene.owned("pods").await, listed, "the store and the NNCs say the same");
    assert!(
        !short || listed == 62,
        "somebody waits although there are {} left",
        62 - listed
    );
}

#[test]
fn nncs_and_ledger_agree_after_random_faults() {
    for seed in 0..8 {
        run(seed);
    }
}
