//! What a node gets, and how it changes.

use std::collections::BTreeSet;

use berth_api::nnc::{AssignmentMode, ContainerStatus, NetworkContainer, Progress, Scaler};
use berth_api::{NodeNetworkConfig, names};
use futures::StreamExt;
use kube::ResourceExt;
use kube::api::{ListParams, WatchEvent, WatchParams};
use serde_json::json;

use super::play;
use super::scene::{Scene, containers, names_of, settle, status};

#[test]
fn a_new_node_gets_an_empty_network_container() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        let spec = json!({"cidrs": ["10.64.0.0/24"], "gateways": ["10.64.0.1"]});
        scene.subnet("pods", spec).await;
        let node = scene.node("n1").await;
        let addressed = |nnc: &NodeNetworkConfig| {
            containers(nnc).iter().any(|container| !container.node_ip.is_empty())
        };
        let nnc = scene.nnc("n1", "has a container with its address", addressed).await;
        assert_eq!(nnc.finalizers(), [names::FINALIZER]);
        let owner = &nnc.owner_references()[0];
        assert_eq!(
            (owner.kind.as_str(), Some(&owner.uid)),
            ("Node", node.metadata.uid.as_ref())
        );
        assert_eq!((owner.controller, owner.block_owner_deletion), (Some(true), Some(true)));
        assert_eq!(nnc.spec.requested_ip_count, 0);

        let status = status(&nnc);
        let scaler = Scaler {
            batch_size: 16,
            release_threshold_percent: 150,
            request_threshold_percent: 50,
            max_ip_count: 250,
        };
        assert_eq!((status.assigned_ip_count, status.scaler), (0, Some(scaler)));
        assert_eq!(status.status, Some(Progress::Updated));
        let id = status.network_containers[0].id.clone();
        assert_eq!(id, id.to_lowercase());
        let expected = NetworkContainer {
            id,
            assignment_mode: AssignmentMode::Dynamic,
            container_type: "vnet".to_owned(),
            primary_ip: "10.64.0.2".to_owned(),
            subnet_name: "pods".to_owned(),
            subnet_address_space: "10.64.0.0/24".to_owned(),
            default_gateway: Some("10.64.0.1".to_owned()),
            node_ip: "192.0.0.159".to_owned(),
            status: Some(ContainerStatus::Success),
            ..NetworkContainer::default()
        };
        assert_eq!(status.network_containers, [expected]);
    });
}

#[test]
fn a_node_costs_two_writes_before_its_agent_asks() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.ready("pods").await;
        let start = scene
            .nncs()
            .list(&ListParams::default())
            .await
            .unwrap()
            .metadata
            .resource_version
            .unwrap();
        scene.create(&scene.nodes(), json!({"metadata": {"name": "n1"}})).await;
        scene.container("n1").await;
        settle().await;
        // One more, so that the watch has an end.
        scene
            .patch(&scene.nncs(), "n1", json!({"metadata": {"labels": {"end": "yes"}}}))
            .await;
        let events = scene
            .nncs()
            .watch(&WatchParams::default(), &start)
            .await
            .unwrap()
            .boxed();
        let is_before_the_end = |event: &WatchEvent<NodeNetworkConfig>| {
            let ended = match event {
                WatchEvent::Added(nnc) | WatchEvent::Modified(nnc) => {
                    nnc.labels().contains_key("end")
                }
                other => panic!("{other:?}"),
            };
            std::future::ready(!ended)
        };
        let writes: Vec<_> = events
            .map(|event| event.unwrap())
            .take_while(is_before_the_end)
            .collect()
            .await;
        assert_eq!(writes.len(), 2);
        assert!(scene.events("Node", "n1").await.is_empty());
        assert!(scene.events("NodeNetworkConfig", "n1").await.is_empty());
    });
}

#[test]
fn what_an_agent_asks_for_comes_and_what_it_gives_back_goes() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.node("n1").await;
        scene.container("n1").await;
        scene.ask("n1", 16, &[]).await;
        let first = scene.with_addresses("n1", 16).await;
        assert_eq!(first.version, 1);

        // Fewer, with the names of those it has no use for; then more while the names are still
        // there.
        let back: Vec<String> = names_of(&first)[..4].to_vec();
        scene.ask("n1", 12, &back).await;
        let second = scene.with_addresses("n1", 12).await;
        assert_eq!(second.version, 2);
        assert_eq!(names_of(&second), names_of(&first)[4..]);
        scene.ask("n1", 20, &back).await;
        let third = scene.with_addresses("n1", 20).await;
        assert_eq!(third.version, 3);
        let kept: BTreeSet<String> = names_of(&second).into_iter().collect();
        let all: BTreeSet<String> = names_of(&third).into_iter().collect();
        assert!(kept.is_subset(&all));
        assert!(
            back.iter().all(|name| !all.contains(name)),
            "a name is never used again"
        );
        assert_eq!(scene.owned("pods").await, 21);
    });
}

#[test]
fn fewer_without_names_takes_nothing() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.node("n1").await;
        scene.container("n1").await;
        scene.ask("n1", 16, &[]).await;
        let before = scene.with_addresses("n1", 16).await;
        scene.ask("n1", 1, &[]).await;
        settle().await;
        assert_eq!(scene.container("n1").await, before);
    });
}

#[test]
fn a_new_scaler_or_node_address_keeps_the_version() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.node("n1").await;
        scene.container("n1").await;
        let scaler = json!({"spec": {"scaler": {"batchSize": 4}}});
        scene.patch(&scene.subnets(), "pods", scaler).await;
        let has_batch = |nnc: &NodeNetworkConfig| {
            status(nnc).scaler.is_some_and(|scaler| scaler.batch_size == 4)
        };
        scene.nnc("n1", "has the new batch size", has_batch).await;

        let addresses =
            json!({"status": {"addresses": [{"type": "InternalIP", "address": "198.51.100.7"}]}});
        let patch = kube::api::Patch::Merge(addresses);
        scene
            .nodes()
            .patch_status("n1", &kube::api::PatchParams::default(), &patch)
            .await
            .unwrap();
        let moved = |nnc: &NodeNetworkConfig| containers(nnc)[0].node_ip == "198.51.100.7";
        let nnc = scene.nnc("n1", "has the new address", moved).await;
        assert_eq!(containers(&nnc)[0].version, 0);
    });
}

#[test]
fn a_node_stays_in_the_first_subnet_by_name_that_selects_it() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        let zoned =
            json!({"cidrs": ["10.65.0.0/24"], "nodeSelector": {"matchLabels": {"zone": "east"}}});
        scene.subnet("a", zoned).await;
        scene.subnet("b", json!({"cidrs": ["10.66.0.0/24"]})).await;
        scene.ready("a").await;
        scene.ready("b").await;
        scene.node("n1").await;
        assert_eq!(scene.container("n1").await.subnet_name, "b");
        scene
            .patch(&scene.nodes(), "n1", json!({"metadata": {"labels": {"zone": "east"}}}))
            .await;
        scene.ask("n1", 2, &[]).await;
        assert_eq!(scene.with_addresses("n1", 2).await.subnet_name, "b");

        scene
            .create(
                &scene.nodes(),
                json!({"metadata": {"name": "n2", "labels": {"zone": "east"}}}),
            )
            .await;
        assert_eq!(scene.container("n2").await.subnet_name, "a");
    });
}

#[test]
fn a_node_that_no_subnet_selects_gets_nothing_until_one_does() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        let zoned =
            json!({"cidrs": ["10.65.0.0/24"], "nodeSelector": {"matchLabels": {"zone": "east"}}});
        scene.subnet("a", zoned).await;
        scene.ready("a").await;
        scene.node("n1").await;
        settle().await;
        assert!(scene.nncs().get_opt("n1").await.unwrap().is_none());
        scene
            .patch(&scene.nodes(), "n1", json!({"metadata": {"labels": {"zone": "east"}}}))
            .await;
        scene.container("n1").await;
    });
}
