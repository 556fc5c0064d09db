//! Storms of pods on nodes that exist only as objects: these tests look only at binding.

use std::collections::BTreeMap;

use berth_e2e::Scene;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;
use tokio::task::JoinSet;

use crate::relay::Relay;
use crate::site::{
    Count, Extender, clear, count, failed_scheduling, pod, pods, start_ignoring_scheduler,
    start_scheduler, until,
};

const RUNS: usize = 20;
const NODES: usize = 10;
const EACH: usize = 10;
const ROOM: usize = NODES * EACH;
const PODS: usize = 500;
/// A /28 has 16 addresses: 10 are left.
const RESERVED: &str = "--reserved-per-cidr=6";

async fn open(test: &str) -> Scene {
    let scene = Scene::open(test, |cluster| {
        cluster
            .without_controllers()
            .api_flag("--disable-admission-plugins=ServiceAccount,TaintNodesByCondition")
    })
    .await;
    scene.unwrap()
}

async fn create_node(nodes: Api<Node>, name: String, cidr: String) {
    let resources = json!({"cpu": "64", "memory": "256Gi", "pods": "500"});
    let node = json!({
        "metadata": {"name": name},
        "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
        "status": {
            "capacity": resources, "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "test", "message": "test"}],
        },
    });
    let node = serde_json::from_value(node).unwrap();
    nodes.create(&PostParams::default(), &node).await.unwrap();
}

async fn create_nodes(scene: &Scene, prefix: &str, cidrs: impl IntoIterator<Item = String>) {
    let nodes = Api::<Node>::all(scene.client.clone());
    let mut running = JoinSet::new();
    for (n, cidr) in cidrs.into_iter().enumerate() {
        running.spawn(create_node(nodes.clone(), format!("{prefix}-{n}"), cidr));
        if running.len() >= 32 {
            running.join_next().await.unwrap().unwrap();
        }
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
}

/// Creates all pods at once, half of them for each scheduler.
async fn storm(scene: &Scene) {
    let mut running = JoinSet::new();
    for n in 0..PODS {
        let scheduler = if n % 2 == 0 { "one" } else { "two" };
        let pod = serde_json::from_value(pod(&format!("pod-{n}"), scheduler)).unwrap();
        let api = pods(scene);
        running.spawn(async move { drop(api.create(&PostParams::default(), &pod).await.unwrap()) });
    }
    while let Some(done) = running.join_next().await {
        done.unwrap();
    }
}

/// Checks that no node ever has more pods than addresses, and waits until each has as many.
async fn settles(scene: &Scene) -> Count {
    let over = |count: &Count| count.by_node.values().any(|pods| *pods > EACH);
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let settled = until(scene, "100 pods are bound, and all others were refused", |count| {
        if over(count) {
            seen.clone_from(&count.by_node);
        }
        count.bound() == ROOM && count.refused == PODS - ROOM
    })
    .await;
    assert!(seen.is_empty(), "over-committed: {seen:?}");
    settled
}

#[tokio::test(flavor = "multi_thread")]
async fn two_schedulers_bind_exactly_as_many_pods_as_there_are_ips() {
    let scene = open("scheduling-race").await;
    create_nodes(&scene, "node", (0..NODES).map(|n| format!("10.244.{n}.0/28"))).await;
    let mut extender = Extender::start(&scene, "berth-scheduler", &[RESERVED]);
    extender.ready(&scene).await;
    let _one = start_scheduler(&scene, "one", extender.port);
    let _two = start_scheduler(&scene, "two", extender.port);
    for run in 0..RUNS {
        let begin = std::time::Instant::now();
        storm(&scene).await;
        let settled = settles(&scene).await;
        assert_eq!(settled.bound(), ROOM);
        println!("run {run}: {ROOM} of {PODS} bound after {:.1?}", begin.elapsed());
        clear(&scene, Some(0)).await;
    }

    // The reason in the pod's status stays short, however many nodes are full.
    create_nodes(
        &scene,
        "full",
        (0..5_000).map(|n| format!("10.{}.{}.0/31", 100 + n / 250, n % 250)),
    )
    .await;
    storm(&scene).await;
    let settled = settles(&scene).await;
    let longest = settled.reasons.keys().map(String::len).max().unwrap();
    println!(
        "at 5,000 full nodes the longest reason has {longest} bytes: {:?}",
        settled.reasons.keys().last()
    );
    assert!(longest < 1_000);
    extender.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_extender_that_is_killed_over_commits_nothing() {
    let scene = open("scheduling-killed").await;
    create_nodes(&scene, "node", (0..NODES).map(|n| format!("10.244.{n}.0/28"))).await;
    let relay = Relay::start().await;
    let _one = start_scheduler(&scene, "one", relay.port);
    let _two = start_scheduler(&scene, "two", relay.port);
    let mut leader = Extender::start(&scene, "first", &[RESERVED]);
    leader.ready(&scene).await;
    let mut standby = Extender::start(&scene, "second", &[RESERVED]);
    relay.lead_to(leader.address());
    assert!(!standby.is_ready().unwrap(), "one leads");

    storm(&scene).await;
    let begun = until(&scene, "some are bound", |count| count.bound() > 0).await;
    leader.kill();
    println!("the leader was killed with {} pods bound", begun.bound());
    // The relay still leads to the dead leader: no node has too many pods.
    standby.ready(&scene).await;
    let between = count(&scene).await.unwrap();
    assert!(
        between.bound() <= ROOM && between.by_node.values().all(|pods| *pods <= EACH),
        "{between:?}"
    );
    relay.lead_to(standby.address());
    let settled = settles(&scene).await;
    assert_eq!(settled.bound(), ROOM);

    // An extender that is stopped in good order hands over, too.
    clear(&scene, Some(0)).await;
    let mut third = Extender::start(&scene, "third", &[RESERVED]);
    storm(&scene).await;
    until(&scene, "some are bound", |count| count.bound() > 0).await;
    standby.stop();
    third.ready(&scene).await;
    relay.lead_to(third.address());
    settles(&scene).await;

    // All nodes are full and no extender runs. A scheduler that needs the extender leaves its pod
    // waiting; one that may ignore it binds one pod too many.
    third.stop();
    let _ignoring = start_ignoring_scheduler(&scene, "ignoring", relay.port);
    crate::site::create(&scene, pod("alone", "one")).await;
    failed_scheduling(&scene, "alone").await;
    assert_eq!(count(&scene).await.unwrap().bound(), ROOM);
    crate::site::create(&scene, pod("ignoring", "ignoring")).await;
    until(&scene, "it is bound to a full node", |count| count.bound() == ROOM + 1).await;
    let ignoring = pods(&scene).get("ignoring").await.unwrap();
    assert!(ignoring.spec.unwrap().node_name.is_some());

    clear(&scene, Some(0)).await;
    crate::tls::phase(&scene, &[RESERVED]).await;
}
