//! `berth agent --routes linux` on real nodes: pods on different nodes talk through routes that the
//! agents make in the nodes' kernels.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod monitor;
mod stage;

use std::time::{Duration, Instant};

use berth_e2e::rights::Audit;
use berth_e2e::{Seen, wait_for};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::DeleteParams;
use monitor::Monitor;
use stage::{Stage, address_of, node_of, on_node};

/// How long the API server is away.
const OUTAGE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn pods_on_different_nodes_talk_through_our_routes() {
    let directory = tempfile::tempdir().unwrap();
    let audit = Audit::of(directory.path()).unwrap();
    let stage = Stage::open_with("routes", 3, |cluster| audit.on(cluster)).await;
    for node in stage.nodes() {
        on_node(node, "ip route add blackhole 198.51.100.0/24 proto 78");
        stage.start_agent(node);
    }
    stage.routed(2).await;
    let pods = stage.run_pods().await;
    for from in &pods {
        for to in pods.iter().filter(|to| node_of(to) != node_of(from)) {
            stage.reach(from, address_of(to)).await;
        }
    }
    for node in stage.nodes() {
        stage.condition_is(node.name(), "False", "RouteCreated").await;
    }

    // A node leaves.
    let left = &stage.nodes()[2];
    let gone = stage.cidr(left.name()).await;
    let nodes = Api::<Node>::all(stage.scene.client.clone());
    nodes.delete(left.name(), &DeleteParams::default()).await.unwrap();
    let start = Instant::now();
    let look = async || {
        let others = &stage.nodes()[..2];
        let routes: String = others
            .iter()
            .map(|node| on_node(node, "ip route show proto 77"))
            .collect();
        Ok(if routes.contains(&gone) {
            Seen::NotYet(routes)
        } else {
            Seen::There
        })
    };
    wait_for(&stage.scene, "the routes to the node that left are gone", look)
        .await
        .unwrap();
    println!("the routes to a node that left were gone after {:?}", start.elapsed());
    for node in &stage.nodes()[..2] {
        assert!(on_node(node, "ip route show proto 78").contains("198.51.100.0/24"));
    }

    // Some request needed each right of the role for routes.
    let asked = audit.asked().unwrap();
    let role = Some("berth-agent-routes");
    let superfluous = asked.superfluous_of(&stage.scene, "berth-agent", role).await.unwrap();
    assert!(superfluous.is_empty(), "{superfluous:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_route_flaps_when_agents_or_the_api_server_are_down() {
    let stage = Stage::open("routes-outage", 3).await;
    for node in stage.nodes() {
        stage.start_agent(node);
    }
    stage.routed(2).await;
    let monitors: Vec<Monitor> = stage.nodes().iter().map(Monitor::start).collect();
    for node in stage.nodes() {
        stage.kill_agent(node);
        stage.start_agent(node);
    }
    let server = stage.scene.cluster.control_plane().process("kube-apiserver").unwrap();
    // Its parent, `nsenter`, stops when it does, and has to be continued, too.
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let parent = status
        .lines()
        .find_map(|line| line.strip_prefix("PPid:\t"))
        .unwrap()
        .to_owned();
    let signal = |name: &str, pid: &str| {
        let sent = std::process::Command::new("kill").args([name, pid]).status().unwrap();
        assert!(sent.success());
    };
    signal("-STOP", &server.pid().to_string());
    // One agent starts while no API server tells it which nodes there are.
    stage.kill_agent(&stage.nodes()[0]);
    stage.start_agent(&stage.nodes()[0]);
    tokio::time::sleep(OUTAGE).await;
    signal("-CONT", &server.pid().to_string());
    signal("-CONT", &parent);
    // The agents have seen the API server again once they have routed something new.
    stage.ghost("ghost", "10.244.200.0/24").await;
    for (node, monitor) in stage.nodes().iter().zip(monitors) {
        let told = monitor.until("10.244.200.0/24");
        let ours: Vec<&str> = told.lines().filter(|line| line.contains("proto 77")).collect();
        assert_eq!(ours.len(), 1, "{}: {told}", node.name());
    }
}
