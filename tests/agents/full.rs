//! A node without a free address, under a runtime that asks its plugins for their STATUS.

use std::collections::BTreeSet;

use berth_e2e::{Seen, wait_for};
use berth_testbed::{Network, Runtime, Seat};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, NodeCondition};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::stage::{Stage, phase};

const PODS: usize = 20;
/// A kubelet renews its Lease every 10 seconds, and the runtime asks twice as often. Before STATUS
/// told a full node from a broken one, a full node was NotReady after 25 seconds, and its pods went
/// 10 seconds later.
const HEARTBEATS: usize = 9;

async fn condition(stage: &Stage, kind: &str) -> Option<NodeCondition> {
    let nodes = Api::<Node>::all(stage.scene.client.clone());
    let node = nodes.get("node-1").await.unwrap();
    let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
    conditions.into_iter().find(|condition| condition.type_ == kind)
}

async fn until(stage: &Stage, kind: &str, status: &str) -> NodeCondition {
    let mut found = None;
    let look = async || {
        found = condition(stage, kind).await;
        Ok(match &found {
            Some(shown) if shown.status == status => Seen::There,
            other => Seen::NotYet(format!(
                "{:?}",
                other.as_ref().map(|shown| (&shown.status, &shown.reason))
            )),
        })
    };
    wait_for(&stage.scene, &format!("{kind} is {status}"), look)
        .await
        .unwrap();
    found.unwrap()
}

async fn heartbeat(stage: &Stage) -> Option<String> {
    let leases = Api::<Lease>::namespaced(stage.scene.client.clone(), "kube-node-lease");
    // A new node has none yet.
    let lease = leases.get_opt("node-1").await.unwrap()?;
    lease.spec?.renew_time.map(|time| time.0.to_string())
}

/// The UIDs of the running pods.
async fn running(stage: &Stage) -> BTreeSet<String> {
    let pods = stage.listed().await.into_iter();
    let pods =
        pods.filter(|pod| phase(pod) == "Running" && pod.metadata.deletion_timestamp.is_none());
    pods.filter_map(|pod| pod.uid()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_node_stays_ready_and_keeps_its_pods() {
    // If no node at all is ready, Kubernetes evicts nothing. So there is another node, with a
    // network that is not ours.
    let network = |seat: &Seat| {
        let ptp = Network::ptp(seat);
        let configuration = ptp.configuration.filter(|_| seat.number > 1);
        Network { configuration, ..ptp }
    };
    let stage =
        Stage::open_with("agents-full", 2, json!({"cidrs": ["10.64.0.0/28"]}), move |cluster| {
            let cluster = cluster.runtime(Runtime::Containerd2).network(network);
            cluster.api_flag("--default-not-ready-toleration-seconds=10")
        })
        .await;
    let node = &stage.nodes()[0];
    stage.start_agent(node).await;
    until(&stage, "Ready", "True").await;
    stage.deploy(node.name(), PODS).await;
    let mut full = BTreeSet::new();
    let look = async || {
        let pool = stage.status(node)?.pool;
        full = running(&stage).await;
        let is_full = pool.free + pool.cooling_down == 0 && pool.assigned >= 12;
        let all_run = u64::try_from(full.len())? == pool.assigned;
        Ok(if is_full && all_run {
            Seen::There
        } else {
            // Not the pool: while no container can start, its counts change all the time, and the
            // wait would never end.
            Seen::NotYet(format!("{} run", full.len()))
        })
    };
    wait_for(&stage.scene, "the node is full", look).await.unwrap();
    assert!(full.len() < PODS, "some wait for an address");
    println!("{} of {PODS} pods run on a full node", full.len());

    let mut last = heartbeat(&stage).await;
    let mut heard = 0;
    let mut harm = BTreeSet::new();
    let look = async || {
        let ready = condition(&stage, "Ready").await.unwrap();
        if ready.status != "True" {
            harm.insert(format!("not Ready: {}", ready.message.unwrap_or_default()));
        }
        let here = running(&stage).await;
        let gone = full.difference(&here).count();
        if gone > 0 {
            harm.insert(format!("{gone} pods went"));
        }
        let now = heartbeat(&stage).await;
        if now != last {
            last = now;
            heard += 1;
        }
        Ok(if heard == HEARTBEATS {
            Seen::There
        } else {
            Seen::NotYet(format!("{heard} heartbeats"))
        })
    };
    wait_for(&stage.scene, "the kubelet goes on", look).await.unwrap();
    assert!(harm.is_empty(), "{harm:?}");
    let told = until(&stage, "berth.dev/PodAddressesAvailable", "False").await;
    assert_eq!(told.reason.as_deref(), Some("SubnetFull"), "{told:?}");
    println!("the Node says: {}", told.message.unwrap_or_default());

    stage.kill_agent(node);
    let ready = until(&stage, "Ready", "False").await;
    println!("without an agent it says: {}", ready.message.unwrap_or_default());
}
