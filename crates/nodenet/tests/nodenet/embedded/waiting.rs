//! More is asked for than there is.

use berth_api::NodeNetworkConfig;
use berth_api::nnc::{ContainerStatus, Progress};
use berth_testkit::until;
use kube::api::ListParams;
use serde_json::json;
use tokio::time::Instant;

use super::play;
use super::scene::{Scene, addresses, containers, names_of, settle, status};

/// A /29 has six addresses.
const SIX: &str = "10.64.0.0/29";

async fn nodes_with_container(scene: &Scene) -> Vec<String> {
    let nncs = scene.nncs().list(&ListParams::default()).await.unwrap();
    let with = nncs.into_iter().filter(|nnc| !containers(nnc).is_empty());
    with.filter_map(|nnc| nnc.metadata.name).collect()
}

#[test]
fn an_exhausted_subnet_blocks_nobody_for_ever() {
    play(async |scene: Scene| {
        let controller = scene.start();
        scene.subnet("pods", json!({"cidrs": [SIX]})).await;
        // Three are left.
        scene.node("full").await;
        scene.container("full").await;
        scene.ask("full", 2, &[]).await;
        scene.with_addresses("full", 2).await;

        for name in ["n1", "n2", "n3"] {
            scene.node(name).await;
            scene.container(name).await;
        }
        for name in ["n4", "n5"] {
            scene.node(name).await;
            let waits = |nnc: &NodeNetworkConfig| status(nnc).status == Some(Progress::Error);
            let nnc = scene.nnc(name, "says that it waits", waits).await;
            assert!(containers(&nnc).is_empty());
            for (kind, name) in [("Node", name), ("NodeNetworkConfig", name)] {
                let note = scene.event(kind, name, "SubnetFull").await;
                assert!(note.contains("subnet pods has no address left"), "{note}");
                assert!(note.contains("append"), "{note}");
            }
        }
        settle().await;
        assert_eq!(nodes_with_container(&scene).await.len(), 4);
        let waiters = || controller.metric(r#"berth_subnet_waiters{subnet="pods"}"#);
        assert_eq!(waiters().as_deref(), Some("2"));

        // No pod has shown an address for so long: what a Node leaves behind while others wait
        // comes back at once.
        tokio::time::sleep(scene.node_grace()).await;
        let left = Instant::now();
        scene.delete(&scene.nodes(), "n2").await;
        // First come, first served, and without waiting for a resync.
        scene.container("n4").await;
        scene.check_at_once(left);
        settle().await;
        assert!(containers(&scene.nncs().get("n5").await.unwrap()).is_empty());
        assert_eq!(waiters().as_deref(), Some("1"));
        scene.check_no_address_is_given_twice().await;
        assert_eq!(scene.owned("pods").await, 6);
    });
}

#[test]
fn a_node_gets_what_there_is_and_the_rest_when_it_comes_free() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene.subnet("pods", json!({"cidrs": [SIX]})).await;
        for name in ["n1", "n2"] {
            scene.node(name).await;
            scene.container(name).await;
        }
        scene.ask("n1", 3, &[]).await;
        let other = scene.with_addresses("n1", 3).await;
        scene.ask("n2", 4, &[]).await;
        let short = scene.with_addresses("n2", 1).await;
        assert_eq!(short.status, Some(ContainerStatus::SubnetFull));
        assert_eq!(
            status(&scene.nncs().get("n2").await.unwrap()).status,
            Some(Progress::Error)
        );
        let note = scene.event("NodeNetworkConfig", "n2", "SubnetFull").await;
        assert!(
            note.contains("3 of the 4 addresses that the node asks for are missing"),
            "{note}"
        );
        assert!(scene.events("Node", "n2").await.is_empty(), "the node can be used");

        // A node that waits can still give back.
        let gone = Instant::now();
        scene.ask("n1", 1, &names_of(&other)[..2]).await;
        let more = scene.with_addresses("n2", 3).await;
        scene.check_at_once(gone);
        assert_eq!((more.version, more.status), (2, Some(ContainerStatus::SubnetFull)));
        scene.ask("n1", 0, &names_of(&other)).await;
        let all = scene.with_addresses("n2", 4).await;
        assert_eq!((all.version, all.status), (3, Some(ContainerStatus::Success)));
        assert_eq!(
            status(&scene.nncs().get("n2").await.unwrap()).status,
            Some(Progress::Updated)
        );
        scene.check_no_address_is_given_twice().await;
    });
}

#[test]
fn who_comes_later_is_served_later() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene.subnet("pods", json!({"cidrs": [SIX]})).await;
        for name in ["n1", "n2", "n3"] {
            scene.node(name).await;
            scene.container(name).await;
        }
        scene.ask("n1", 3, &[]).await;
        let held = scene.with_addresses("n1", 3).await;
        for name in ["n2", "n3"] {
            scene.ask(name, 2, &[]).await;
            scene.event("NodeNetworkConfig", name, "SubnetFull").await;
        }
        scene.ask("n1", 1, &names_of(&held)[..2]).await;
        scene.with_addresses("n2", 2).await;
        settle().await;
        assert!(addresses(&scene.nncs().get("n3").await.unwrap()).is_empty());
    });
}

#[test]
fn a_node_with_no_container_comes_before_requests_for_more() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene.subnet("pods", json!({"cidrs": [SIX]})).await;
        let first = ["n1", "n2", "n3"];
        for name in first {
            scene.node(name).await;
            scene.container(name).await;
        }
        for name in first {
            scene.ask(name, 16, &[]).await;
            scene.event("NodeNetworkConfig", name, "SubnetFull").await;
        }
        let joined = ["n4", "n5"];
        for name in joined {
            scene.node(name).await;
            scene.event("Node", name, "SubnetFull").await;
        }
        // Each time one address comes free, and 40 are asked for by those who have waited for
        // longer.
        tokio::time::sleep(scene.node_grace()).await;
        for (releasing, joined) in ["n3", "n2"].into_iter().zip(joined) {
            let left = Instant::now();
            scene.delete(&scene.nodes(), releasing).await;
            scene.container(joined).await;
            scene.check_at_once(left);
        }
        scene.check_no_address_is_given_twice().await;
    });
}

#[test]
fn a_subnet_that_is_extended_serves_all_who_wait() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/30"]})).await;
        scene.ready("pods").await;
        for name in ["n1", "n2", "n3", "n4", "n5"] {
            scene.node(name).await;
        }
        // Nodes that come at one time may be served in any order.
        let first = until("two have a container", async || {
            let served = nodes_with_container(&scene).await;
            (served.len() == 2).then_some(served)
        })
        .await;
        settle().await;
        let extended = Instant::now();
        scene
            .patch(
                &scene.subnets(),
                "pods",
                json!({"spec": {"cidrs": ["10.64.0.0/30", "10.65.0.0/24"]}}),
            )
            .await;
        until("all have a container", async || {
            (nodes_with_container(&scene).await.len() == 5).then_some(())
        })
        .await;
        scene.check_at_once(extended);
        // The address is told with the CIDR that it is in.
        for name in ["n1", "n2", "n3", "n4", "n5"] {
            let space = scene.container(name).await.subnet_address_space;
            let is_first = first.iter().any(|served| served == name);
            let expected = if is_first { "10.64.0.0/30" } else { "10.65.0.0/24" };
            assert_eq!(space, expected, "{name}");
        }
    });
}

#[test]
fn a_node_that_no_longer_wants_it_gives_up_its_place() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene.subnet("pods", json!({"cidrs": [SIX]})).await;
        for name in ["n1", "n2", "n3"] {
            scene.node(name).await;
            scene.container(name).await;
        }
        scene.ask("n1", 3, &[]).await;
        let held = scene.with_addresses("n1", 3).await;
        for name in ["n2", "n3"] {
            scene.ask(name, 2, &[]).await;
            scene.event("NodeNetworkConfig", name, "SubnetFull").await;
        }
        scene.ask("n2", 0, &[]).await;
        let content = |nnc: &NodeNetworkConfig| status(nnc).status == Some(Progress::Updated);
        scene.nnc("n2", "wants nothing any more", content).await;
        scene.ask("n1", 1, &names_of(&held)[..2]).await;
        scene.with_addresses("n3", 2).await;
    });
}
