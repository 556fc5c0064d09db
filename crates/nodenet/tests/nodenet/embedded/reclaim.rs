//! What is left behind is taken back, but not too soon.

use std::io;
use std::time::Duration;

use berth_ledger::{Claim, Kind, Owner};
use berth_nodenet::controllers::Controller;
use berth_testkit::until;
use kube::Client;
use kube::client::Body;
use serde_json::json;

use super::play;
use super::scene::{Scene, settle};

const GRACE: Duration = Duration::from_secs(600);

#[test]
fn addresses_without_nnc_and_node_return_after_grace_period() {
    play(async |scene: Scene| {
        let first = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.node("n1").await;
        scene.node("n2").await;
        for name in ["n1", "n2"] {
            scene.container(name).await;
            scene.ask(name, 4, &[]).await;
            scene.with_addresses(name, 4).await;
        }
        first.stop().await;
        scene.delete(&scene.nncs(), "n1").await;
        scene
            .patch(&scene.nncs(), "n1", json!({"metadata": {"finalizers": null}}))
            .await;
        scene.delete(&scene.nodes(), "n1").await;

        let _second = scene.start_with(Controller::on_by_default(), GRACE);
        tokio::time::sleep(GRACE - Duration::from_secs(30)).await;
        assert_eq!(scene.owned("pods").await, 10, "it may come back");
        until("it is taken back", async || {
            (scene.owned("pods").await == 5).then_some(())
        })
        .await;
        let note = scene.event("Subnet", "pods", "Reclaimed").await;
        assert!(note.contains("/scene/n1/"), "{note}");
        scene.with_addresses("n2", 4).await;
    });
}

/// A way to the API server on which this Node can't be asked for.
fn without_node(client: Client, name: &str) -> Client {
    let path = format!("/api/v1/nodes/{name}");
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let (client, lost) = (client.clone(), request.uri().path() == path);
        async move {
            if lost {
                return Err(io::Error::other("it never arrived"));
            }
            client.send(request).await.map_err(io::Error::other)
        }
    });
    Client::new(service, "default")
}

#[test]
fn one_that_can_not_be_asked_for_does_not_keep_the_others() {
    play(async |scene: Scene| {
        let client = without_node(scene.client.clone(), "gone-1");
        let controller = scene.start_on(client, Controller::on_by_default(), GRACE);
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.ready("pods").await;
        let ledger = controller.ledger.as_ref().unwrap();
        for name in ["gone-1", "gone-2"] {
            let owner = Owner::new(Kind::Secondary, "scene", name, "uid").unwrap();
            let lease = uuid::Uuid::from_u128(1);
            ledger.lease("pods", &owner, vec![lease], None).await.unwrap();
        }
        until("the other is taken back", async || {
            (scene.owned("pods").await == 1).then_some(())
        })
        .await;
    });
}

#[test]
fn owners_of_other_clusters_and_machines_are_not_reclaimed() {
    play(async |scene: Scene| {
        let controller = scene.start_with(Controller::on_by_default(), Duration::from_secs(60));
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.ready("pods").await;
        let owners = [
            Owner::new(Kind::Primary, "another", "n1", "uid").unwrap(),
            Owner::new(Kind::Machine, "scene", "m1", "").unwrap(),
            Owner::new(Kind::Secondary, "scene", "gone", "uid").unwrap(),
        ];
        let ledger = controller.ledger.as_ref().unwrap();
        for (n, owner) in owners.iter().enumerate() {
            let lease = uuid::Uuid::from_u128(u128::try_from(n).unwrap());
            ledger.lease("pods", owner, vec![lease], None).await.unwrap();
        }
        until("one is taken back", async || {
            (scene.owned("pods").await == 2).then_some(())
        })
        .await;
        tokio::time::sleep(GRACE).await;
        settle().await;
        assert_eq!(scene.owned("pods").await, 2);
    });
}

#[test]
fn a_second_address_of_the_nodes_own_is_one_for_its_pods() {
    play(async |scene: Scene| {
        let controller = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        let node = scene.node("n1").await;
        let own = scene.container("n1").await.primary_ip;
        // As when a block was lost, another address was leased, and the first was claimed back.
        let nc = scene.container_ref("n1", &node.metadata.uid.unwrap());
        let second = Claim {
            unit: "10.64.0.77/32".parse().unwrap(),
            owner: nc.primary().unwrap(),
            lease: nc.id(),
            from: None,
        };
        let ledger = controller.ledger.as_ref().unwrap();
        ledger.restore("pods", vec![second]).await.unwrap();
        scene.ask("n1", 1, &[]).await;
        let container = scene.with_addresses("n1", 2).await;
        assert_eq!((container.primary_ip, container.primary_ip_v6), (own, None));
        assert!(container.ip_assignments.iter().any(|one| one.ip == "10.64.0.77"));
        assert_eq!(scene.owned("pods").await, 3);
    });
}
