//! What an agent's token allows: to write the objects of its own node, and no others.

use berth_api::NodeNetworkConfig;
use berth_api::names::NAMESPACE;
use berth_e2e::{Seen, connect, roles, wait_for};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::stage::Stage;

/// The server checks the request, and writes nothing.
fn dry() -> PatchParams {
    PatchParams {
        dry_run: true,
        ..PatchParams::default()
    }
}

async fn frees(client: &Client, node: &str) -> kube::Result<NodeNetworkConfig> {
    let nncs = Api::<NodeNetworkConfig>::namespaced(client.clone(), NAMESPACE);
    let patch = json!({"spec": {"ipsNotInUse": ["0b0e0c1a-55aa-4d4b-9c3e-6a1f0d2b7c8e"]}});
    nncs.patch(node, &dry(), &Patch::Merge(patch)).await
}

async fn reports(client: &Client, node: &str, patch: Value) -> kube::Result<Node> {
    let nodes = Api::<Node>::all(client.clone());
    nodes.patch_status(node, &dry(), &Patch::Strategic(patch)).await
}

fn condition() -> Value {
    json!({"status": {"conditions": [{"type": "berth.dev/PodAddressesAvailable", "status": "True"}]}})
}

fn refusal<T: std::fmt::Debug>(answer: kube::Result<T>) -> String {
    match answer {
        Err(kube::Error::Api(status)) if status.code == 403 => status.message,
        other => panic!("it is not forbidden: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agents_token_can_write_only_for_its_own_node() {
    let stage = Stage::open("agents-rights", 2, json!({"cidrs": ["10.64.0.0/16"]})).await;
    let scene = &stage.scene;
    let agent = connect(&roles::of_agent(scene, "node-1").await.unwrap()).await.unwrap();
    let nncs = Api::<NodeNetworkConfig>::namespaced(scene.client.clone(), NAMESPACE);
    let look = async || {
        let listed = nncs.list(&kube::api::ListParams::default()).await?.items.len();
        // The server takes a moment to know a policy that was just made.
        let refused = frees(&agent, "node-2").await.is_err();
        Ok(if listed == 2 && refused {
            Seen::There
        } else {
            Seen::NotYet(format!("{listed} nncs, refused: {refused}"))
        })
    };
    wait_for(scene, "both nodes have an NNC, and the policy holds", look)
        .await
        .unwrap();

    frees(&agent, "node-1").await.unwrap();
    reports(&agent, "node-1", condition()).await.unwrap();
    let expected = "the agent of node node-1 may write only what is of its own node, and not";
    let said = refusal(frees(&agent, "node-2").await);
    assert!(
        said.contains(expected) && said.contains("nodenetworkconfigs node-2"),
        "{said}"
    );
    let said = refusal(reports(&agent, "node-2", condition()).await);
    assert!(said.contains(expected) && said.contains("nodes node-2"), "{said}");
    // Of its own Node, the agent may write only conditions.
    for patch in [
        json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}),
        json!({"status": {"allocatable": {"pods": "100000"}}}),
        json!({"status": {"nodeInfo": {"bootID": "another"}}}),
    ] {
        let said = refusal(reports(&agent, "node-1", patch).await);
        assert!(said.contains("only conditions"), "{said}");
    }
    // What no agent may do at all.
    let agents = Api::<NodeNetworkConfig>::namespaced(agent.clone(), NAMESPACE);
    refusal(agents.delete("node-1", &DeleteParams::default()).await);
    let status = Patch::Merge(json!({"status": {"assignedIPCount": 9}}));
    refusal(agents.patch_status("node-1", &dry(), &status).await);

    // A token that is bound to the Node itself works as well.
    let bound =
        scene
            .cluster
            .kubeconfig_of_account(NAMESPACE, roles::AGENT, Some(("Node", "node-1")));
    let bound = connect(&bound.unwrap()).await.unwrap();
    frees(&bound, "node-1").await.unwrap();
    assert!(refusal(frees(&bound, "node-2").await).contains(expected));

    // A token that names no node may write nothing.
    let unbound = scene.cluster.kubeconfig_of_account(NAMESPACE, roles::AGENT, None);
    let unbound = connect(&unbound.unwrap()).await.unwrap();
    let said = refusal(frees(&unbound, "node-1").await);
    assert!(said.contains("names no node"), "{said}");
}
