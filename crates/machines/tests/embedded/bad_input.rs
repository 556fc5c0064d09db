//! Networks set by hand, right and wrong.

use berth_machines::machine::{INITIALIZER, Shape};
use serde_json::json;

use crate::play;
use crate::scene::settle;

#[test]
fn an_address_set_by_hand_is_kept_and_never_given_to_others() {
    play(async |scene| {
        let shape = Shape::ProviderConfig;
        // Before anybody runs: it is claimed before anything is leased.
        scene.create(shape, "by-hand", "", json!({"cidr": "10.0.0.2/24"})).await;
        let running = scene.start(&["10.0.0.0/24,10.0.0.1"]);
        scene.gated("m1").await;
        assert_eq!(scene.address("m1").await, "10.0.0.3/24");
        scene
            .create(shape, "gated-by-hand", INITIALIZER, json!({"cidr": "10.0.0.9/24"}))
            .await;
        assert_eq!(scene.address("gated-by-hand").await, "10.0.0.9/24");
        assert!(scene.says("gated-by-hand", "Allocated").await.contains("by hand"));
        settle().await;
        assert_eq!(scene.owned("machines-10.0.0.0-24").await, 3);
        running.stop().await;
    });
}

#[test]
fn a_network_outside_of_every_cidr_is_used_as_it_is_and_told() {
    play(async |scene| {
        let running = scene.start(&["10.0.0.0/24,10.0.0.1"]);
        scene
            .create(Shape::ProviderConfig, "m1", INITIALIZER, json!({"cidr": "10.9.0.2/24"}))
            .await;
        assert_eq!(scene.address("m1").await, "10.9.0.2/24");
        let note = scene.event("m1", "NetworkOutside").await;
        assert!(note.contains("10.9.0.2/24"), "{note}");
        running.stop().await;
    });
}

#[test]
fn a_duplicate_address_warns_both_machines_and_the_second_waits() {
    play(async |scene| {
        let running = scene.start(&["10.0.0.0/24,10.0.0.1"]);
        let network = json!({"cidr": "10.0.0.7/24"});
        scene
            .create(Shape::ProviderConfig, "first", INITIALIZER, network.clone())
            .await;
        scene.address("first").await;
        scene
            .create(Shape::ProviderConfig, "second", INITIALIZER, network)
            .await;
        assert!(scene.event("first", "AddressConflict").await.contains("second"));
        assert!(
            scene
                .event("second", "AddressConflict")
                .await
                .contains("machine/scene//first/")
        );
        settle().await;
        let second = scene
            .machine(Shape::ProviderConfig, "second", "is there", |_| true)
            .await;
        assert!(second.is_gated());
        // Once the first is gone it goes on by itself.
        scene.delete("first").await;
        scene.address("second").await;
        running.stop().await;
    });
}

#[test]
fn a_machine_without_our_initializer_is_not_touched() {
    play(async |scene| {
        let running = scene.start(&["10.0.0.0/24,10.0.0.1"]);
        scene
            .create(
                Shape::ProviderConfig,
                "m1",
                "my-ipam.berth.dev",
                serde_json::Value::Null,
            )
            .await;
        scene
            .create(Shape::ProviderConfig, "m2", "", serde_json::Value::Null)
            .await;
        scene.gated("m3").await;
        scene.address("m3").await;
        settle().await;
        for name in ["m1", "m2"] {
            let machine = scene.machine(Shape::ProviderConfig, name, "is there", |_| true).await;
            assert_eq!(machine.network, Ok(None), "{name}");
            assert!(machine.metadata.finalizers.is_none(), "{name}");
        }
        running.stop().await;
    });
}
