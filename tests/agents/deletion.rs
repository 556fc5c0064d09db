//! Pods are deleted while the agent is away. If that needed the agent, a full node would deadlock:
//! the agent's pod could never come back, because no other pod could make room for it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use berth_api::agent::AddressState;
use berth_api::cni::Attachment;
use berth_e2e::{Seen, wait_for};
use berth_testbed::Node;
use serde_json::json;

use crate::stage::{Stage, address_of};

const PODS: usize = 200;

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_pods_deleted_without_an_agent_are_freed_once() {
    let start = Instant::now();
    let seconds = || start.elapsed().as_secs_f64();
    let stage = Stage::open("agents-deletion", 1, json!({"cidrs": ["10.64.0.0/16"]})).await;
    let node = &stage.nodes()[0];
    stage.start_agent(node).await;

    // The agent is stopped, as in an update.
    stage.deploy(node.name(), PODS).await;
    let pods = stage.run(PODS).await;
    println!("{PODS} pods run after {:.1} s", seconds());
    let held: BTreeSet<String> = pods.iter().map(|pod| address_of(pod).to_owned()).collect();
    assert_eq!(held.len(), PODS);
    let attached = stage.assigned(node).into_iter().filter_map(|line| line.attachment);
    let attached: BTreeSet<Attachment> = attached.collect();
    assert_eq!(attached.len(), PODS);
    stage.stop_agent(node);
    stage.undeploy(node.name()).await;
    stage.gone().await;
    println!("all are gone after {:.1} s, and the agent is away", seconds());
    // A runtime may queue more: what a pod's first attempt left behind is detached, too.
    let queued = stage.queued(node).unwrap();
    let missing: Vec<&Attachment> = attached.difference(&queued).collect();
    assert!(missing.is_empty(), "each of them left a release, but {missing:?}");
    stage.start_agent(node).await;
    stage.cleared(node).await;
    free_once(&stage, node).await;

    // The agent is killed while pods start, and again while pods go.
    stage.deploy(node.name(), PODS).await;
    stage.run(PODS / 2).await;
    stage.kill_agent(node);
    stage.undeploy(node.name()).await;
    stage.start_agent(node).await;
    let look = async || {
        let left = stage.listed().await.len();
        Ok(if left < PODS * 3 / 4 {
            Seen::There
        } else {
            Seen::NotYet(format!("{left} are left"))
        })
    };
    wait_for(&stage.scene, "some are gone", look).await.unwrap();
    stage.kill_agent(node);
    stage.gone().await;
    println!("all are gone again after {:.1} s", seconds());
    stage.start_agent(node).await;
    stage.cleared(node).await;
    free_once(&stage, node).await;
}

/// Waits until no address is assigned and the pool has its size for no pods; no address may be
/// listed twice.
async fn free_once(stage: &Stage, node: &Node) {
    let look = async || {
        let lines = stage.addresses(node);
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for line in &lines {
            *counts.entry(line.address.to_string()).or_default() += 1;
        }
        assert!(counts.values().all(|count| *count == 1), "{counts:?}");
        let free = lines
            .iter()
            .all(|line| matches!(line.state, AddressState::Free | AddressState::CoolingDown));
        let requested = stage.status(node)?.requested;
        Ok(if free && lines.len() == 16 && requested == 16 {
            Seen::There
        } else {
            Seen::NotYet(format!("{} addresses, {requested} requested", lines.len()))
        })
    };
    wait_for(&stage.scene, "every address is free, once", look)
        .await
        .unwrap();
}
