//! `berth uninstall cluster`, with a kubelet that is played here: it says how pods ended.

use std::process::{Command, Stdio};
use std::time::Duration;

use berth_api::names::NAMESPACE;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tempfile::TempDir;

use crate::controller::{Cluster, Process, berth};

const POD: &str = "berth-uninstall-n1";

fn uninstall(cluster: &Cluster) -> Command {
    let mut command = berth("uninstall");
    command.args(["cluster", "--image", "berth:test", "--kubeconfig"]);
    command.arg(&cluster.kubeconfig).stderr(Stdio::piped());
    command
}

/// Once there is one that has not ended.
async fn end(pods: &Api<Pod>, phase: &str, message: &str) {
    loop {
        let found = pods.get_opt(POD).await.unwrap().and_then(|pod| pod.status);
        let is_new = found.is_some_and(|status| status.phase.as_deref() == Some("Pending"));
        if is_new {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let status = json!({"status": {"phase": phase, "message": message}});
    let params = PatchParams::default();
    pods.patch_status(POD, &params, &Patch::Merge(status)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unclean_node_is_named_and_retried_by_the_next_run() {
    let directory = TempDir::new().unwrap();
    let cluster = Cluster::start(directory.path()).await;
    cluster.join("n1").await;
    let pods = Api::<Pod>::namespaced(cluster.client.clone(), NAMESPACE);

    let first = uninstall(&cluster).spawn().unwrap();
    end(&pods, "Failed", "another agent uses it").await;
    let output = first.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    let why = "some nodes are not clean: n1: another agent uses it";
    assert!(said.contains(why), "{said}");

    // A Job's next try, with nobody between them.
    let mut second = Process(uninstall(&cluster).spawn().unwrap());
    end(&pods, "Succeeded", "").await;
    assert!(second.0.wait().unwrap().success());
    assert!(pods.get_opt(POD).await.unwrap().is_none());
}
