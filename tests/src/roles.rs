//! Berth's own roles, as `deploy/rbac` has them. A test runs our programs under these, and not as
//! an administrator.

use std::path::{Path, PathBuf};

use anyhow::Result;
use berth_api::names::NAMESPACE;
use berth_testbed::POD_IMAGE;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::PostParams;
use serde_json::json;

use crate::scene::Scene;

pub const CONTROLLER: &str = "berth-controller";
pub const AGENT: &str = "berth-agent";

/// Accounts, roles and the policy that limits an agent to its own node.
pub fn apply(scene: &Scene) -> Result<()> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/rbac");
    for file in ["controller.yaml", "agent.yaml"] {
        scene.cluster.apply(&directory.join(file))?;
    }
    Ok(())
}

/// A kubeconfig for `berth controller`.
pub fn of_controller(scene: &Scene) -> Result<PathBuf> {
    scene.cluster.kubeconfig_of_account(NAMESPACE, CONTROLLER, None)
}

/// A kubeconfig for the agent of a node. Agents are processes here. So there is a pod for each
/// agent, which just ends: the agent's token is bound to it, as that of an agent in a pod is.
pub async fn of_agent(scene: &Scene, node: &str) -> Result<PathBuf> {
    let name = format!("{AGENT}-{node}");
    let pods = Api::<Pod>::namespaced(scene.client.clone(), NAMESPACE);
    if pods.get_opt(&name).await?.is_none() {
        let container = json!({
            "name": "main", "image": POD_IMAGE, "imagePullPolicy": "Never", "command": ["sh", "-c", "exit 0"],
        });
        let pod = json!({
            "metadata": {"name": name},
            "spec": {
                "nodeName": node, "serviceAccountName": AGENT, "hostNetwork": true, "containers": [container],
                "restartPolicy": "Never", "automountServiceAccountToken": false, "enableServiceLinks": false,
                "tolerations": [{"operator": "Exists"}],
            },
        });
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?)
            .await?;
    }
    scene
        .cluster
        .kubeconfig_of_account(NAMESPACE, AGENT, Some(("Pod", &name)))
}
