//! What the old implementation did wrong, each as a test. Its substring handling of the annotation
//! is in `machine/initializers.rs`; its IPs that were free while their machine still ran, its limit
//! of one machine a second and its exhaustion that was only an event are in `allocation.rs`.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use berth_machines::machine::Shape;
use serde_json::json;
use tokio::time::Instant;

use crate::play;

#[test]
fn the_real_network_and_broadcast_addresses_are_left_out() {
    play(async |scene| {
        let running = scene.start(&["10.0.0.0/30,10.9.0.1"]);
        for name in ["m1", "m2"] {
            scene.gated(name).await;
        }
        let given = BTreeSet::from([scene.address("m1").await, scene.address("m2").await]);
        assert_eq!(given, ["10.0.0.1/30", "10.0.0.2/30"].map(str::to_owned).into());
        scene.gated("m3").await;
        scene.says("m3", "NoFreeAddress").await;
        running.stop().await;
    });
}

#[test]
fn host_addresses_that_end_in_0_or_255_are_given() {
    play(async |scene| {
        let running = scene.start(&["10.0.0.254/31,10.9.0.1", "10.0.1.0/31,10.9.0.1"]);
        let mut given = BTreeSet::new();
        for name in ["m1", "m2", "m3", "m4"] {
            scene.gated(name).await;
            given.insert(scene.address(name).await);
        }
        let expected = ["10.0.0.254/31", "10.0.0.255/31", "10.0.1.0/31", "10.0.1.1/31"];
        assert_eq!(given, expected.map(str::to_owned).into());
        running.stop().await;
    });
}

#[test]
fn gateway_and_name_servers_are_never_given() {
    play(async |scene| {
        let running = scene.start(&["10.0.0.0/29,10.0.0.1,10.0.0.2,10.0.0.3"]);
        for name in ["m1", "m2", "m3"] {
            scene.gated(name).await;
            let ip: IpAddr = scene.address(name).await.split('/').next().unwrap().parse().unwrap();
            assert!(ip > IpAddr::from(Ipv4Addr::new(10, 0, 0, 3)), "{ip}");
        }
        scene.gated("m4").await;
        scene.says("m4", "NoFreeAddress").await;
        running.stop().await;
    });
}

#[test]
fn a_network_that_overlaps_another_subnet_is_refused() {
    play(async |scene| {
        let running = scene.start(&[]);
        let pods = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Subnet", "metadata": {"name": "pods"},
            "spec": {"cidrs": ["10.0.0.0/16"]},
        });
        let pods = serde_json::from_value(pods).unwrap();
        scene.subnets().create(&Default::default(), &pods).await.unwrap();
        scene.ready("pods").await;
        running.stop().await;
        let running = scene.start(&["10.0.1.0/24,10.0.1.1"]);
        scene.gated("m1").await;
        let why = scene.says("m1", "NoNetwork").await;
        assert!(why.contains("machines-10.0.1.0-24"), "{why}");
        running.stop().await;
    });
}

#[test]
fn a_machine_that_does_not_parse_blocks_nobody() {
    play(async |scene| {
        let running = scene.start(&["10.0.0.0/24,10.0.0.1"]);
        let wrong = json!({"ip": "not an address", "netmask": "255.255.255.0"});
        scene
            .create(Shape::ProviderConfig, "a-bad-one", "ipam.berth.dev", wrong)
            .await;
        scene.gated("m1").await;
        assert_eq!(scene.address("m1").await, "10.0.0.2/24");
        let note = scene.event("a-bad-one", "InvalidNetwork").await;
        assert!(note.starts_with("spec.providerConfig.network.ip: "), "{note}");
        running.stop().await;
    });
}

#[test]
fn a_hundred_machines_take_less_than_a_second() {
    play(async |scene| {
        let running = scene.start(&["10.0.0.0/24,10.0.0.1"]);
        scene.ready("machines-10.0.0.0-24").await;
        let start = Instant::now();
        for number in 0..100 {
            scene.gated(&format!("m{number}")).await;
        }
        for number in 0..100 {
            scene.address(&format!("m{number}")).await;
        }
        // On the stopped clock: nobody waited for a time to come.
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        running.stop().await;
    });
}
