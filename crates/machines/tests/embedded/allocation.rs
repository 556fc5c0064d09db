//! The seed's tests, and what follows from them.

use berth_machines::ipam::{BYPASS, FINALIZER};
use berth_machines::machine::Shape;
use serde_json::{Value, json};

use crate::play;
use crate::scene::{settle, until};

#[test]
fn allocates_ip_from_cidrs() {
    play(async |scene| {
        let running = scene.start(&["192.168.1.128/25,192.168.1.1,192.168.1.1"]);
        scene.gated("m1").await;
        let machine = scene.open(Shape::ProviderConfig, "m1").await;
        // As in the seed, to the letter.
        let expected = json!({
            "ip": "192.168.1.129", "netmask": "255.255.255.128", "gateway": "192.168.1.1",
            "dns": {"servers": ["192.168.1.1"]},
        });
        assert_eq!(*Shape::ProviderConfig.network(&machine.value), expected);
        // What the provider has beside the network is as it was.
        assert_eq!(machine.value["spec"]["providerConfig"]["cloud"], "x");
        let annotations = machine.metadata.annotations.clone().unwrap_or_default();
        assert_eq!(annotations[BYPASS], "true");
        assert_eq!(machine.metadata.finalizers.clone().unwrap(), [FINALIZER]);
        scene.says("m1", "Allocated").await;
        running.stop().await;
    });
}

#[test]
fn allocates_ip_from_second_cidr_when_first_is_full() {
    play(async |scene| {
        let running =
            scene.start(&["10.0.0.0/30,10.0.0.1,10.0.0.53", "10.0.1.0/24,10.0.1.1,10.0.1.53"]);
        scene.gated("m1").await;
        assert_eq!(scene.address("m1").await, "10.0.0.2/30");
        scene.gated("m2").await;
        let machine = scene.open(Shape::ProviderConfig, "m2").await;
        let network = machine.network.unwrap().unwrap();
        assert_eq!(network.addresses[0].to_string(), "10.0.1.2/24");
        // Gateway and name server are those of its CIDR.
        assert_eq!(network.addresses[0].gateway, Some("10.0.1.1".parse().unwrap()));
        assert_eq!(network.dns, ["10.0.1.53".parse::<std::net::IpAddr>().unwrap()]);
        running.stop().await;
    });
}

#[test]
fn fails_when_no_free_ip_is_left() {
    play(async |scene| {
        let running = scene.start(&["10.0.0.0/30,10.0.0.1", "10.0.1.0/30,10.0.1.1"]);
        for name in ["m1", "m2"] {
            scene.gated(name).await;
            scene.address(name).await;
        }
        scene.gated("m3").await;
        let why = scene.says("m3", "NoFreeAddress").await;
        assert!(why.contains("10.0.0.0/30, 10.0.1.0/30"), "{why}");
        assert!(scene.event("m3", "NoFreeAddress").await.contains("10.0.1.0/30"));
        settle().await;
        let machine = scene.machine(Shape::ProviderConfig, "m3", "is there", |_| true).await;
        assert!(machine.is_gated() && machine.network == Ok(None));
        assert_eq!(scene.metric("berth_machine_allocations_total{owner=\"Machine\"}"), 2);
        assert_eq!(scene.metric("berth_machine_waiting{owner=\"Machine\"}"), 1);
        assert!(scene.metric("berth_machine_full_total{owner=\"Machine\"}") >= 1);
        running.stop().await;
    });
}

#[test]
fn a_machine_that_waits_goes_on_when_an_address_comes_free() {
    play(async |scene| {
        let running = scene.start(&["10.0.0.0/30,10.0.0.1"]);
        scene.gated("m1").await;
        let address = scene.address("m1").await;
        scene.gated("m2").await;
        scene.says("m2", "NoFreeAddress").await;
        scene.delete("m1").await;
        assert_eq!(scene.address("m2").await, address);
        scene.gone("m1").await;
        running.stop().await;
    });
}

#[test]
fn a_machine_that_waits_goes_on_when_a_cidr_is_added() {
    play(async |scene| {
        let running = scene.start(&["10.0.0.0/30,10.0.0.1"]);
        scene.gated("m1").await;
        scene.address("m1").await;
        scene.gated("m2").await;
        scene.says("m2", "NoFreeAddress").await;
        running.stop().await;
        let running = scene.start(&["10.0.0.0/30,10.0.0.1", "10.0.1.0/24,10.0.1.1"]);
        assert_eq!(scene.address("m2").await, "10.0.1.2/24");
        running.stop().await;
    });
}

#[test]
fn both_shapes_and_both_families_get_what_their_shape_has() {
    play(async |scene| {
        let running =
            scene.start(&["10.0.0.0/24,10.0.0.1,10.0.0.53", "fd00::/64,fd00::1,fd00::53"]);
        let shape = Shape::ProviderSpec;
        scene.create(shape, "m1", "a,ipam.berth.dev,b", Value::Null).await;
        let machine = scene.open(shape, "m1").await;
        let expected = json!({
            "cidr": "10.0.0.2/24", "gateway": "10.0.0.1",
            "dns": {"servers": ["10.0.0.53", "fd00::53"]},
            "addresses": [
                {"cidr": "10.0.0.2/24", "gateway": "10.0.0.1"},
                {"cidr": "fd00::2/64", "gateway": "fd00::1"},
            ],
        });
        assert_eq!(*shape.network(&machine.value), expected);
        assert_eq!(machine.initializers().to_annotation().as_deref(), Some("a,b"));
        scene.gated("m2").await;
        let machine = scene.open(Shape::ProviderConfig, "m2").await;
        assert_eq!(machine.network.unwrap().unwrap().addresses.len(), 2);
        running.stop().await;
    });
}

#[test]
fn an_address_is_held_until_the_machine_is_really_gone() {
    play(async |scene| {
        let running = scene.start(&["10.0.0.0/30,10.0.0.1"]);
        scene.gated("m1").await;
        scene.address("m1").await;
        // Its builder has a machine to remove first.
        let builder = "machine-delete-finalizer";
        scene
            .patch("m1", json!({"metadata": {"finalizers": [FINALIZER, builder]}}))
            .await;
        scene.delete("m1").await;
        scene.gated("m2").await;
        scene.says("m2", "NoFreeAddress").await;
        settle().await;
        assert_eq!(scene.owned("machines-10.0.0.0-30").await, 1);
        scene
            .patch("m1", json!({"metadata": {"finalizers": [FINALIZER]}}))
            .await;
        scene.gone("m1").await;
        scene.address("m2").await;
        running.stop().await;
    });
}

#[test]
fn many_at_once_have_an_address_each_whoever_dies_meanwhile() {
    play(async |scene| {
        let network = "10.0.0.0/24,10.0.0.1,10.0.0.2";
        let mut running = scene.start(&[network]);
        scene.ready("machines-10.0.0.0-24").await;
        for number in 0..120 {
            scene.gated(&format!("m{number}")).await;
            if number % 30 == 29 {
                running.kill();
                running = scene.start(&[network]);
            }
        }
        for number in 0..120 {
            scene.address(&format!("m{number}")).await;
        }
        scene.check_no_address_twice().await;
        until("no more is owned than was given", async || {
            (scene.owned("machines-10.0.0.0-24").await == 120).then_some(())
        })
        .await;
        running.stop().await;
    });
}

#[test]
fn nothing_is_written_when_nothing_changes() {
    play(async |scene| {
        let running = scene.start(&["10.0.0.0/30,10.0.0.1"]);
        scene.gated("m1").await;
        scene.address("m1").await;
        scene.gated("m2").await;
        scene.says("m2", "NoFreeAddress").await;
        settle().await;
        let version = async || {
            let list = scene
                .machines(Shape::ProviderConfig)
                .list(&Default::default())
                .await
                .unwrap();
            let versions = list.items.iter().map(|item| item.metadata.resource_version.clone());
            versions.collect::<Vec<_>>()
        };
        let before = version().await;
        tokio::time::sleep(std::time::Duration::from_secs(600)).await;
        assert_eq!(version().await, before);
        running.stop().await;
    });
}
