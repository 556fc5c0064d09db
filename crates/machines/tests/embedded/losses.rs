//! Restarts, lost ledgers, machines that went another way.

use std::sync::Arc;
use std::time::Duration;

use berth_ledger::store::MemoryStore;
use berth_machines::machine::Shape;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::play;
use crate::scene::{Scene, settle, until};

const SUBNET: &str = "machines-10.0.0.0-24";

#[test]
fn what_machines_have_is_claimed_from_a_ledger_that_lost_everything() {
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
fn an_address_whose_machine_went_without_its_finalizer_comes_back() {
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
