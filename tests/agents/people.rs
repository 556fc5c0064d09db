//! What people do to a real cluster by hand, while its pods run.

use std::collections::BTreeSet;

use berth_api::{AddressBlock, NodeNetworkConfig, names::NAMESPACE};
use berth_e2e::{Seen, wait_for};
use k8s_openapi::api::core::v1::{Node as NodeObject, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::stage::{Stage, address_of, node_of};

const PODS: usize = 20;

/// A /26 has 62 addresses. Two nodes with 20 pods each request 32 each, which exhausts it.
#[tokio::test(flavor = "multi_thread")]
async fn no_two_pods_share_an_address_whatever_users_change() {
    let stage = Stage::open("agents-people", 2, json!({"cidrs": ["10.64.0.0/26"]})).await;
    for node in stage.nodes() {
        stage.start_agent(node).await;
    }
    stage.deploy("node-1", PODS).await;
    stage.run(PODS).await;
    let blocks: Api<AddressBlock> = Api::all(stage.scene.client.clone());
    let old = blocks.list(&ListParams::default()).await.unwrap().items;
    stage.deploy("node-2", PODS - 10).await;
    check_nothing_is_shared(&stage.run(2 * PODS - 10).await);

    let nncs: Api<NodeNetworkConfig> = Api::namespaced(stage.scene.client.clone(), NAMESPACE);
    nncs.delete("node-1", &DeleteParams::default()).await.unwrap();
    is_listed(&stage, "node-1").await;

    restore(&blocks, old).await;

    let names = assigned(&nncs.get("node-1").await.unwrap(), |one| one.name.clone());
    let patch = Patch::Merge(json!({"spec": {"ipsNotInUse": names}}));
    nncs.patch("node-1", &PatchParams::default(), &patch).await.unwrap();

    register_again(&stage, "node-1").await;
    is_listed(&stage, "node-1").await;

    stage.undeploy("node-2").await;
    let of_first = async || {
        let left = stage
            .listed()
            .await
            .iter()
            .filter(|pod| node_of(pod) == "node-2")
            .count();
        Ok(if left == 0 {
            Seen::There
        } else {
            Seen::NotYet(format!("{left} are left"))
        })
    };
    wait_for(&stage.scene, "the pods of node-2 are gone", of_first)
        .await
        .unwrap();
    stage.deploy("node-2", PODS).await;
    check_nothing_is_shared(&stage.run(2 * PODS).await);
    is_calm(&stage).await;
}

/// Puts an old copy of the ledger back, while the controller runs.
async fn restore(blocks: &Api<AddressBlock>, old: Vec<AddressBlock>) {
    for block in blocks.list(&ListParams::default()).await.unwrap() {
        let name = block.name_any();
        blocks.delete(&name, &DeleteParams::default()).await.unwrap();
    }
    for mut block in old {
        block.metadata.resource_version = None;
        block.metadata.uid = None;
        // The controller may have created it already.
        drop(blocks.create(&PostParams::default(), &block).await);
    }
}

fn check_nothing_is_shared(pods: &[Pod]) {
    let unique: BTreeSet<&str> = pods.iter().map(address_of).collect();
    assert_eq!(unique.len(), pods.len(), "every pod has an address of its own");
}

fn assigned(
    nnc: &NodeNetworkConfig,
    pick: impl Fn(&berth_api::nnc::IpAssignment) -> String,
) -> Vec<String> {
    let containers = nnc.status.iter().flat_map(|status| &status.network_containers);
    containers
        .flat_map(|container| container.ip_assignments.iter().map(&pick))
        .collect()
}

/// Waits until the node's NNC lists all addresses of its pods.
async fn is_listed(stage: &Stage, node: &str) {
    let nncs: Api<NodeNetworkConfig> = Api::namespaced(stage.scene.client.clone(), NAMESPACE);
    let look = async || {
        let Some(nnc) = nncs.get_opt(node).await? else {
            return Ok(Seen::NotYet("there is no NNC".to_owned()));
        };
        let listed = assigned(&nnc, |one| one.ip.clone());
        let pods = stage.listed().await;
        let of_node = pods.iter().filter(|pod| node_of(pod) == node);
        let missing = of_node
            .filter(|pod| !listed.iter().any(|ip| ip == address_of(pod)))
            .count();
        Ok(match (missing, nnc.metadata.deletion_timestamp) {
            (0, None) => Seen::There,
            _ => Seen::NotYet(format!("{missing} are not listed")),
        })
    };
    wait_for(&stage.scene, "all that pods have is listed", look)
        .await
        .unwrap();
}

/// Deletes a Node and creates it again, as a kubelet does at its next start.
async fn register_again(stage: &Stage, name: &str) {
    let nodes: Api<NodeObject> = Api::all(stage.scene.client.clone());
    let before = nodes.get(name).await.unwrap();
    nodes.delete(name, &DeleteParams::background()).await.unwrap();
    let mut again = before.clone();
    again.metadata = kube::api::ObjectMeta {
        name: before.metadata.name.clone(),
        labels: before.metadata.labels.clone(),
        ..Default::default()
    };
    again.status = None;
    let look = async || {
        Ok(match nodes.create(&PostParams::default(), &again).await {
            Ok(_) => Seen::There,
            Err(error) => Seen::NotYet(error.to_string()),
        })
    };
    wait_for(&stage.scene, "the Node is registered again", look)
        .await
        .unwrap();
    let status = json!({"status": before.status});
    nodes
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
}

/// Waits until no NNC changes in fifty looks in a row. If they never settle, the wait never ends.
async fn is_calm(stage: &Stage) {
    let nncs: Api<NodeNetworkConfig> = Api::namespaced(stage.scene.client.clone(), NAMESPACE);
    let (mut before, mut same) = (Vec::new(), 0);
    let look = async || {
        let found = nncs.list(&ListParams::default()).await?;
        let now: Vec<Option<String>> =
            found.items.iter().map(ResourceExt::resource_version).collect();
        same = if now == before { same + 1 } else { 0 };
        before = now;
        Ok(if same >= 50 {
            Seen::There
        } else {
            Seen::NotYet(format!("{before:?}, the same for {same} looks"))
        })
    };
    wait_for(&stage.scene, "nothing is written any more", look)
        .await
        .unwrap();
}
