//! What people do to `berth up` by hand: no address is ever on two pods, and a full subnet is calm.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::net::IpAddr;
use std::process::Stdio;
use std::time::{Duration, Instant};

use berth_api::{NodeNetworkConfig, names::NAMESPACE};
use berth_testkit::until;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::pods::{addresses, all_run, deploy, pods_once};
use super::{Running, berth, up};

const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Two nodes on a /26, with so many pods.
async fn small(directory: &std::path::Path, pods: usize) -> (Running, Client) {
    let mut command = up(directory);
    command.args(["--nodes", "2", "--subnet", "10.9.0.0/26"]);
    let running = Running::start(command);
    let client = running.client().await;
    deploy(&client, pods).await;
    pods_once(&client, all_run(pods)).await;
    (running, client)
}

fn check_nothing_is_shared(pods: &[Pod]) {
    let all: Vec<IpAddr> = pods.iter().flat_map(addresses).collect();
    let unique: BTreeSet<IpAddr> = all.iter().copied().collect();
    assert_eq!(unique.len(), all.len(), "{all:?}");
}

fn nncs(client: &Client) -> Api<NodeNetworkConfig> {
    Api::namespaced(client.clone(), NAMESPACE)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_nodenetworkconfig_gives_nothing_away() {
    let directory = tempfile::tempdir().unwrap();
    let (_running, client) = small(directory.path(), 16).await;
    let before = nncs(&client).get("berth-node-1").await.unwrap();
    nncs(&client)
        .delete("berth-node-1", &DeleteParams::default())
        .await
        .unwrap();
    loop {
        let found = nncs(&client).get_opt("berth-node-1").await.unwrap();
        if found.is_some_and(|found| found.uid() != before.uid() && found.status.is_some()) {
            break;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    deploy(&client, 40).await;
    check_nothing_is_shared(&pods_once(&client, all_run(40)).await);
}

/// `kubectl delete` looks again by name before it waits: what it must not find is the next one.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_nodenetworkconfig_stays_away_for_a_second() {
    let directory = tempfile::tempdir().unwrap();
    let (_running, client) = small(directory.path(), 4).await;
    let nncs = nncs(&client);
    for _ in 0..5 {
        // As soon as it is there: the controller is still busy with it.
        let before = until("it is there", async || nncs.get_opt("berth-node-1").await.unwrap());
        let before = before.await.uid();
        let start = Instant::now();
        nncs.delete("berth-node-1", &DeleteParams::default()).await.unwrap();
        until("it is recreated", async || {
            let found = nncs.get_opt("berth-node-1").await.unwrap();
            found.filter(|found| found.uid() != before)
        })
        .await;
        assert!(start.elapsed() >= Duration::from_secs(1), "{:?}", start.elapsed());
    }
}

/// It has a ledger of its own: were both to lease, an address would have two owners, and each would
/// undo for ever what the other one writes.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_that_is_started_beside_it_waits() {
    let directory = tempfile::tempdir().unwrap();
    let (running, _client) = small(directory.path(), 4).await;
    for words in [
        &["controller"][..],
        &["machine-ipam", "--network", "192.168.9.0/24,192.168.9.1,192.168.9.1"],
    ] {
        let mut command = berth();
        command.args(words).arg("--kubeconfig").arg(running.kubeconfig());
        let mut second = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(second.stderr.take().unwrap());
        let said = log.lines().map(Result::unwrap).find(|line| line.contains("lead"));
        second.kill().unwrap();
        second.wait().unwrap();
        let said = said.unwrap();
        assert!(said.contains("waiting: another process leads"), "{said}");
    }
}

/// As a kubelet registers its Node again after somebody deleted it. Its pods go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_node_that_is_registered_again_gives_nothing_away() {
    let directory = tempfile::tempdir().unwrap();
    let (_running, client) = small(directory.path(), 16).await;
    let nodes: Api<Node> = Api::all(client.clone());
    let before = nodes.get("berth-node-1").await.unwrap();
    nodes.delete("berth-node-1", &DeleteParams::background()).await.unwrap();
    let mut again = before.clone();
    again.metadata = ObjectMeta {
        name: before.metadata.name.clone(),
        labels: before.metadata.labels.clone(),
        ..ObjectMeta::default()
    };
    // Its kubelet may have been faster.
    drop(nodes.create(&PostParams::default(), &again).await);
    let status = Patch::Merge(json!({"status": before.status}));
    nodes
        .patch_status("berth-node-1", &PatchParams::default(), &status)
        .await
        .unwrap();
    deploy(&client, 40).await;
    check_nothing_is_shared(&pods_once(&client, all_run(40)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_ledger_put_back_gives_nothing_away() {
    let directory = tempfile::tempdir().unwrap();
    let (running, client) = small(directory.path(), 4).await;
    drop(client);
    drop(running);
    let ledger = directory.path().join("ledger.redb");
    let copy = directory.path().join("copy.redb");
    std::fs::copy(&ledger, &copy).unwrap();
    let (running, client) = small(directory.path(), 36).await;
    let before = pods_once(&client, all_run(36)).await;
    check_nothing_is_shared(&before);
    drop(client);
    drop(running);
    std::fs::copy(&copy, &ledger).unwrap();
    let (_running, client) = small(directory.path(), 44).await;
    check_nothing_is_shared(&pods_once(&client, all_run(44)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn ips_not_in_use_does_not_free_addresses_that_pods_have() {
    let directory = tempfile::tempdir().unwrap();
    let (_running, client) = small(directory.path(), 16).await;
    let nnc = nncs(&client).get("berth-node-1").await.unwrap();
    let containers = nnc.status.unwrap().network_containers;
    let names: Vec<String> = containers[0]
        .ip_assignments
        .iter()
        .map(|one| one.name.clone())
        .collect();
    let patch = Patch::Merge(json!({"spec": {"ipsNotInUse": names}}));
    nncs(&client)
        .patch("berth-node-1", &PatchParams::default(), &patch)
        .await
        .unwrap();
    deploy(&client, 40).await;
    check_nothing_is_shared(&pods_once(&client, all_run(40)).await);
}

/// 40 pods on two nodes: exhausted, for what the nodes would ask for otherwise does not fit.
#[tokio::test(flavor = "multi_thread")]
async fn a_full_subnet_with_unchanging_pods_is_calm() {
    let directory = tempfile::tempdir().unwrap();
    let (_running, client) = small(directory.path(), 40).await;
    let versions = async || {
        let found = nncs(&client).list(&ListParams::default()).await.unwrap();
        found.items.iter().map(|nnc| nnc.resource_version()).collect::<Vec<_>>()
    };
    // It has settled once nothing has changed for ten looks in a row. It never did before, so this
    // would not end.
    let (mut before, mut same) = (versions().await, 0);
    while same < 10 {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = versions().await;
        same = if now == before { same + 1 } else { 0 };
        before = now;
    }
}
