//! Restarts, lost ledgers, machines that went another way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use berth_ledger::store::MemoryStore;
use berth_machines::machine::Shape;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::play;
use crate::scene::{Scene, settle, until};

const SUBNET: &str = "machines-10.0.0.0-24";

#[test]
fn addresses_of_machines_are_claimed_into_an_empty_ledger() {
    play(async |scene| {
        let running = scene.start(&["10.0.0.0/24,10.0.0.1"]);
        for name in ["m1", "m2"] {
            scene.gated(name).await;
            scene.address(name).await;
        }
        running.stop().await;
        let scene = Scene {
            store: Arc::new(MemoryStore::default()),
            ..scene
        };
        scene.gated("m3").await;
        let running = scene.start(&["10.0.0.0/24,10.0.0.1"]);
        scene.address("m3").await;
        scene.check_no_address_twice().await;
        settle().await;
        assert_eq!(scene.owned(SUBNET).await, 3);
        running.stop().await;
    });
}

#[test]
fn a_machine_that_waits_goes_on_after_a_restart_too() {
    play(async |scene| {
        let network = ["10.0.0.0/30,10.0.0.1"];
        let running = scene.start(&network);
        scene.gated("m1").await;
        let address = scene.address("m1").await;
        scene.gated("m2").await;
        scene.says("m2", "NoFreeAddress").await;
        running.stop().await;
        let running = scene.start(&network);
        settle().await;
        scene.delete("m1").await;
        assert_eq!(scene.address("m2").await, address);
        running.stop().await;
    });
}

#[test]
fn a_machine_that_was_put_back_keeps_its_address() {
    play(async |scene| {
        let running = scene.start(&["10.0.0.0/24,10.0.0.1"]);
        scene.gated("m1").await;
        let address = scene.address("m1").await;
        running.stop().await;
        // A backup has it as it was; its UID is another one by then.
        let api = scene.machines(Shape::ProviderConfig);
        let mut object = api.get("m1").await.unwrap();
        scene.patch("m1", json!({"metadata": {"finalizers": null}})).await;
        api.delete("m1", &DeleteParams::default()).await.unwrap();
        let uid = object.metadata.uid.take();
        object.metadata.resource_version = None;
        let object = api.create(&PostParams::default(), &object).await.unwrap();
        assert_ne!(object.metadata.uid, uid);
        let running = scene.start(&["10.0.0.0/24,10.0.0.1"]);
        scene.gated("m2").await;
        assert_ne!(scene.address("m2").await, address);
        until("the new one owns it", async || {
            let owners = running.ledger.owners(SUBNET).await.ok()?;
            owners
                .iter()
                .any(|owner| Some(owner.uid()) == object.metadata.uid.as_deref())
                .then_some(())
        })
        .await;
        assert_eq!(scene.owned(SUBNET).await, 2);
        running.stop().await;
    });
}

#[test]
fn the_address_of_a_machine_without_finalizer_is_reclaimed() {
    play(async |scene| {
        let running = scene.start(&["10.0.0.0/24,10.0.0.1"]);
        scene.gated("m1").await;
        scene.address("m1").await;
        settle().await;
        running.stop().await;
        scene.patch("m1", json!({"metadata": {"finalizers": null}})).await;
        scene.delete("m1").await;
        let running = scene.start(&["10.0.0.0/24,10.0.0.1"]);
        scene.ready(SUBNET).await;
        tokio::time::sleep(Duration::from_secs(200)).await;
        assert_eq!(scene.owned(SUBNET).await, 1, "within the grace period it stays");
        until("it is back", async || (scene.owned(SUBNET).await == 0).then_some(())).await;
        assert!(scene.event(SUBNET, "Reclaimed").await.contains("machine/scene//m1/"));
        assert_eq!(scene.metric("berth_machine_reclaimed_total{owner=\"Machine\"}"), 1);
        running.stop().await;
    });
}

/// Before each of the first three writes of a status, whoever builds the machine writes it.
fn behind_a_provider(scene: &Scene) -> Client {
    let client = scene.client.clone();
    let machines = scene.machines(Shape::ProviderConfig);
    let count = Arc::new(AtomicUsize::new(0));
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let (client, machines, count) = (client.clone(), machines.clone(), Arc::clone(&count));
        async move {
            if request.uri().path().ends_with("/machines/m1/status") {
                let number = count.fetch_add(1, Ordering::Relaxed);
                if number < 3 {
                    let built = Patch::Merge(json!({"status": {"lastOperation": {"n": number}}}));
                    let params = PatchParams::default();
                    machines.patch_status("m1", &params, &built).await.unwrap();
                }
            }
            client.send(request).await
        }
    });
    Client::new(service, "default")
}

#[test]
fn the_condition_is_written_despite_concurrent_status_writes() {
    play(async |scene| {
        let running = scene.start_with(behind_a_provider(&scene), &["10.0.0.0/24,10.0.0.1"]);
        scene.gated("m1").await;
        scene.says("m1", "Allocated").await;
        let machine = scene.machines(Shape::ProviderConfig).get("m1").await.unwrap();
        assert_eq!(
            machine.data["status"]["lastOperation"]["n"], 2,
            "nothing of theirs is lost"
        );
        running.stop().await;
    });
}
