//! The basic case: kube-controller-manager gives every node a podCIDR, and host-local gives pods
//! addresses of it. Three nodes with a /29 each have room for five pods each.

use std::time::Instant;

use berth_e2e::{Scene, Seen, wait_for};
use berth_testbed::{Network, Seat};
use k8s_openapi::api::core::v1::Node;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::site::{Count, Extender, clear, create_many, delete_running, start_scheduler, until};

const NODES: u8 = 3;
pub const EACH: usize = 5;
pub const ROOM: usize = NODES as usize * EACH;
pub const PODS: usize = 30;
const FULL: &str = "0/3 nodes are available: 3 no pod IP left in the node's podCIDR";
/// A part of every reason, with or without the number of nodes.
const REASON: &str = "no pod IP left in the node's podCIDR";

/// Nodes whose podCIDRs are served by host-local.
async fn open(test: &str) -> Scene {
    let bare = |seat: &Seat| Network {
        configuration: None,
        ..Network::ptp(seat)
    };
    let scene = Scene::open(test, |cluster| {
        cluster
            .nodes(NODES)
            .network(bare)
            .manager_flag("--allocate-node-cidrs=true")
            .manager_flag("--cluster-cidr=10.244.0.0/16")
            .manager_flag("--node-cidr-mask-size=29")
    })
    .await
    .unwrap();
    let nodes = Api::<Node>::all(scene.client.clone());
    for node in scene.cluster.nodes() {
        let mut cidr = None;
        let look = async || {
            let found = nodes.get(node.name()).await?;
            cidr = found.spec.and_then(|spec| spec.pod_cidr);
            Ok(if cidr.is_some() {
                Seen::There
            } else {
                Seen::NotYet("no podCIDR".to_owned())
            })
        };
        wait_for(&scene, "the node has a podCIDR", look).await.unwrap();
        let seat = Seat {
            pods: cidr.unwrap(),
            ..node.seat().clone()
        };
        let configuration = Network::ptp(&seat).configuration.unwrap();
        node.configure_network(&configuration).unwrap();
    }
    let look = async || {
        let mut waiting = Vec::new();
        for node in nodes.list(&Default::default()).await?.items {
            let conditions =
                node.status.iter().flat_map(|status| status.conditions.iter().flatten());
            let is_ready = conditions.into_iter().any(|c| c.type_ == "Ready" && c.status == "True");
            let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten()).count();
            if !is_ready || taints > 0 {
                waiting.push(node.name_any());
            }
        }
        Ok(if waiting.is_empty() {
            Seen::There
        } else {
            Seen::NotYet(format!("{waiting:?}"))
        })
    };
    wait_for(&scene, "all nodes are ready", look).await.unwrap();
    scene
}

fn full(count: &Count) -> bool {
    count.running == ROOM && count.refused == PODS - ROOM && count.creating == 0
}

#[tokio::test(flavor = "multi_thread")]
async fn no_pod_is_bound_to_a_node_whose_pod_cidr_is_full() {
    let mut scene = open("scheduling-pod-cidr").await;

    // Without us pods are bound to full nodes, and stay there.
    create_many(&scene, PODS, "default-scheduler").await;
    let without = until(&scene, "all pods are bound, some for nothing", |count| {
        count.running == ROOM && count.creating == PODS - ROOM
    })
    .await;
    println!(
        "without the extender: {} run, {} are stuck in ContainerCreating",
        without.running, without.creating
    );
    clear(&scene, None).await;

    let mut extender = Extender::start(&scene, "berth-scheduler", &["--reserved-per-cidr=3"]);
    extender.ready(&scene).await;
    let scheduler = start_scheduler(&scene, "berth", extender.port);
    create_many(&scene, PODS, "berth").await;
    let with = until(&scene, "15 run, and 15 wait with the reason", full).await;
    println!(
        "with the extender: {} run, {} are in ContainerCreating; {:?}",
        with.running, with.creating, with.reasons
    );
    assert!(with.by_node.values().all(|pods| *pods == EACH), "{with:?}");
    // A pod whose binding the extender refused has only the bare reason, until the scheduler tries
    // it again.
    assert!(with.reasons.keys().all(|reason| reason.contains(REASON)), "{with:?}");
    assert!(with.reasons.keys().any(|reason| reason.starts_with(FULL)), "{with:?}");
    let events = scene.report().await.unwrap();
    assert!(events.contains(FULL), "the pods' events say it, too: {events}");

    delete_running(&scene, 2).await;
    let gone = Instant::now();
    let after = |count: &Count| {
        count.running == ROOM && count.creating == 0 && count.refused == PODS - ROOM - 2
    };
    until(&scene, "two more run", after).await;
    println!("two more run {:.2?} after two were gone", gone.elapsed());

    // A Node that is recreated has no podCIDR for a moment. No waiting pod is bound to it then.
    crate::resource::recreated(&mut scene).await;
    let again = until(&scene, "the Node is counted again", after).await;
    assert!(again.by_node.values().all(|pods| *pods == EACH), "{again:?}");

    // A pod on the host network needs no address, even when all nodes are full.
    let mut on_host = crate::site::pod("on-host", "berth");
    on_host["spec"]["hostNetwork"] = json!(true);
    crate::site::create(&scene, on_host).await;
    until(&scene, "a pod on the host runs", |count| count.running == ROOM + 1).await;
    extender.stop();
    drop(scheduler);
    clear(&scene, None).await;
    crate::resource::phase(&mut scene).await;
}
