//! Several clusters on one address plan.

use std::collections::BTreeSet;

use berth_api::Subnet;
use berth_nodenet::allocator::Registry;
use berth_testkit::until;
use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;

use super::scene::{Scene, addresses, condition, containers};
use super::{Stage, play_with};

async fn in_use(scene: &Scene) -> Vec<String> {
    let nncs = scene.nncs().list(&ListParams::default()).await.unwrap();
    let of_one = |nnc| {
        let primaries = containers(&nnc).into_iter().map(|container| container.primary_ip);
        primaries.chain(addresses(&nnc)).collect::<Vec<_>>()
    };
    nncs.into_iter().flat_map(of_one).collect()
}

#[test]
fn two_clusters_share_a_subnet_and_no_address_is_given_twice() {
    play_with(async |stage: Stage| {
        let (_blue_server, blue) = stage.cluster("blue").await;
        let (_green_server, green) = stage.cluster("green").await;
        let _controllers = [blue.start(), green.start()];
        for scene in [&blue, &green] {
            scene.subnet("pods", json!({"cidrs": ["10.64.0.0/26"]})).await;
            scene.ready("pods").await;
        }
        // The same names: what tells them apart is the cluster.
        let names = ["n1", "n2", "n3"];
        for name in names {
            futures::join!(blue.node(name), green.node(name));
        }
        for scene in [&blue, &green] {
            for name in names {
                scene.container(name).await;
                scene.ask(name, 8, &[]).await;
            }
        }
        let mut all = Vec::new();
        for scene in [&blue, &green] {
            for name in names {
                scene.with_addresses(name, 8).await;
            }
            all.extend(in_use(scene).await);
        }
        assert_eq!(all.len(), 2 * names.len() * 9);
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
        // Each sees what all of them have.
        let all = |subnet: &Subnet| {
            subnet.status.as_ref().and_then(|status| status.reserved) == Some(54.into())
        };
        green.subnet_once("pods", "counts both clusters", all).await;
    });
}

#[test]
fn a_node_of_one_cluster_is_served_when_one_of_another_leaves() {
    play_with(async |stage: Stage| {
        let (_blue_server, blue) = stage.cluster("blue").await;
        let (_green_server, green) = stage.cluster("green").await;
        let _controllers = [blue.start(), green.start()];
        for scene in [&blue, &green] {
            scene.subnet("pods", json!({"cidrs": ["10.64.0.0/30"]})).await;
            scene.ready("pods").await;
        }
        for name in ["n1", "n2"] {
            blue.node(name).await;
            blue.container(name).await;
        }
        green.node("n1").await;
        green.event("Node", "n1", "SubnetFull").await;
        blue.delete(&blue.nodes(), "n2").await;
        green.container("n1").await;
    });
}

#[test]
fn a_conflicting_subnet_is_refused_until_the_other_is_deleted() {
    play_with(async |stage: Stage| {
        let (_blue_server, blue) = stage.cluster("blue").await;
        let (_green_server, green) = stage.cluster("green").await;
        let _controllers = [blue.start(), green.start()];
        blue.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        blue.ready("pods").await;

        green.subnet("wide", json!({"cidrs": ["10.64.0.0/16"]})).await;
        let refused = |subnet: &Subnet| condition(subnet, "Overlapping").0 == "True";
        let subnet = green.subnet_once("wide", "is refused", refused).await;
        let (status, reason, message) = condition(&subnet, "Ready");
        assert_eq!((status.as_str(), reason.as_str()), ("False", "Overlapping"));
        assert!(message.contains("prod.pods"), "{message}");
        assert_eq!(subnet.status.unwrap().capacity, None);

        // The same name with another plan is a change, and that is for those who registered it.
        green.subnet("pods", json!({"cidrs": ["10.65.0.0/24"]})).await;
        let refused = |subnet: &Subnet| condition(subnet, "Ready").1 == "WrongCluster";
        let subnet = green.subnet_once("pods", "is refused", refused).await;
        let message = condition(&subnet, "Ready").2;
        assert!(
            message.contains("registered by cluster blue") && message.contains("cluster green"),
            "{message}"
        );
        assert_eq!(subnet.status.unwrap().capacity, None, "nothing is handed out");
        green.node("n1").await;
        assert_eq!(condition(&blue.ready("pods").await, "Ready").0, "True");

        blue.delete(&blue.subnets(), "pods").await;
        green.ready("pods").await;
        green.ready("wide").await;
        green.container("n1").await;
    });
}

#[test]
fn a_change_to_a_shared_subnet_is_reported_to_other_clusters() {
    play_with(async |stage: Stage| {
        let (_blue_server, blue) = stage.cluster("blue").await;
        let (_green_server, green) = stage.cluster("green").await;
        let _controllers = [blue.start(), green.start()];
        for scene in [&blue, &green] {
            scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
            scene.ready("pods").await;
        }
        let more = json!({"spec": {"cidrs": ["10.64.0.0/24", "10.65.0.0/24"]}});
        blue.patch(&blue.subnets(), "pods", more.clone()).await;
        let told = |subnet: &Subnet| condition(subnet, "Ready").1 == "WrongCluster";
        green.subnet_once("pods", "is told", told).await;
        green.patch(&green.subnets(), "pods", more).await;
        green.ready("pods").await;
    });
}

#[test]
fn a_deleted_subnet_is_unregistered_once_no_node_uses_it() {
    play_with(async |stage: Stage| {
        let (_server, scene) = stage.cluster("blue").await;
        let _controller = scene.start();
        let client = stage.world.client("blue");
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.node("n1").await;
        scene.container("n1").await;
        assert_eq!(client.subnets().await.unwrap(), ["pods"]);
        scene.delete(&scene.subnets(), "pods").await;
        let releasing = |subnet: &Subnet| condition(subnet, "Ready").1 == "Deleting";
        let subnet = scene.subnet_once("pods", "says why it stays", releasing).await;
        assert!(subnet.finalizers().contains(&"berth.dev/subnet".to_owned()));
        assert_eq!(client.subnets().await.unwrap(), ["pods"]);

        scene.delete(&scene.nodes(), "n1").await;
        until("the subnet is gone", async || {
            scene.subnets().get_opt("pods").await.unwrap().is_none().then_some(())
        })
        .await;
        assert!(client.subnets().await.unwrap().is_empty());
    });
}

#[test]
fn a_shared_subnet_removed_by_one_cluster_is_registered_again() {
    play_with(async |stage: Stage| {
        let (_blue_server, blue) = stage.cluster("blue").await;
        let (_green_server, green) = stage.cluster("green").await;
        let _controllers = [blue.start(), green.start()];
        for scene in [&blue, &green] {
            scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
            scene.ready("pods").await;
        }
        blue.delete(&blue.subnets(), "pods").await;
        until("blue's is gone", async || {
            blue.subnets().get_opt("pods").await.unwrap().is_none().then_some(())
        })
        .await;
        green.node("n1").await;
        green.container("n1").await;
        // Now it is green's to change.
        let more = json!({"spec": {"cidrs": ["10.64.0.0/24", "10.65.0.0/24"]}});
        green.patch(&green.subnets(), "pods", more).await;
        let extended = |subnet: &Subnet| {
            subnet.status.as_ref().and_then(|status| status.capacity) == Some(508.into())
        };
        green.subnet_once("pods", "is extended", extended).await;
    });
}

#[test]
fn addresses_of_a_lost_node_are_reclaimed_from_the_service() {
    play_with(async |stage: Stage| {
        let (_server, scene) = stage.cluster("blue").await;
        let first = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        for name in ["n1", "n2"] {
            scene.node(name).await;
            scene.container(name).await;
            scene.ask(name, 4, &[]).await;
            scene.with_addresses(name, 4).await;
        }
        first.stop().await;
        scene.delete(&scene.nncs(), "n1").await;
        let unheld = json!({"metadata": {"finalizers": null}});
        scene.patch(&scene.nncs(), "n1", unheld).await;
        scene.delete(&scene.nodes(), "n1").await;

        let all = berth_nodenet::controllers::Controller::on_by_default();
        let _second = scene.start_with(all, std::time::Duration::from_millis(200));
        until("it is taken back", async || {
            (scene.owned("pods").await == 5).then_some(())
        })
        .await;
        let note = scene.event("Subnet", "pods", "Reclaimed").await;
        assert!(note.contains("took back ") && note.contains("/blue/n1/"), "{note}");
    });
}
