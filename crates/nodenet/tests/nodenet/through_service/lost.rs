//! Containers that the service has lost.

use berth_nodenet::allocator::{Allocator, ContainerRef};
use kube::ResourceExt;
use serde_json::json;

use super::{Stage, play_with};

#[test]
fn a_container_deleted_at_the_service_is_created_again() {
    play_with(async |stage: Stage| {
        let (_server, scene) = stage.cluster("blue").await;
        let _controller = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        let node = scene.node("n1").await;
        scene.container("n1").await;
        scene.ask("n1", 4, &[]).await;
        scene.with_addresses("n1", 4).await;
        let container = ContainerRef {
            cluster: "blue".to_owned(),
            node: "n1".to_owned(),
            uid: node.uid().unwrap(),
        };
        let client = stage.world.client("blue");
        client.delete("pods", &container).await.unwrap();
        scene.ask("n1", 6, &[]).await;
        let after = scene.with_addresses("n1", 6).await;
        let found = client.get("pods", &container).await.unwrap().unwrap();
        assert_eq!(found.primary[0].first().to_string(), after.primary_ip);
        assert_eq!(found.secondaries.len(), 6);
    });
}

#[test]
fn a_lost_container_waits_for_an_address_like_a_new_one() {
    play_with(async |stage: Stage| {
        let (_server, scene) = stage.cluster("blue").await;
        let _controller = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/30"]})).await;
        let node = scene.node("n1").await;
        scene.container("n1").await;
        let container = ContainerRef {
            cluster: "blue".to_owned(),
            node: "n1".to_owned(),
            uid: node.uid().unwrap(),
        };
        let client = stage.world.client("blue");
        client.delete("pods", &container).await.unwrap();
        for name in ["n2", "n3"] {
            scene.node(name).await;
            scene.container(name).await;
        }
        scene.ask("n1", 1, &[]).await;
        scene.event("Node", "n1", "SubnetFull").await;
        for name in ["n2", "n3"] {
            scene.delete(&scene.nodes(), name).await;
        }
        scene.with_addresses("n1", 1).await;
    });
}
