//! `berth status`, `explain` and `check` on a cluster that runs.

use std::path::Path;
use std::process::Output;

use berth_inspect::repair::Repair;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::pods::{addresses, all_run, deploy, deploy_on, pods_once};
use super::{Running, berth, up};

fn ask(kubeconfig: &Path, arguments: &[&str]) -> Output {
    let mut command = berth();
    command.args(arguments).arg("--kubeconfig").arg(kubeconfig);
    command.output().unwrap()
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test]
async fn a_healthy_cluster_is_told_as_it_is_and_nothing_disagrees() {
    let parent = tempfile::tempdir().unwrap();
    let berth = Running::start(up(parent.path()));
    let (client, kubeconfig) = (berth.client().await, berth.kubeconfig());
    deploy(&client, 20).await;
    let pods = pods_once(&client, all_run(20)).await;

    let status: Value =
        serde_json::from_str(&said(&ask(&kubeconfig, &["status", "-o", "json"]))).unwrap();
    assert_eq!(status["nodes"].as_array().unwrap().len(), 3);
    assert_eq!(status["pods"].as_array().unwrap().len(), 20);
    assert_eq!(status["subnets"][0]["name"], "pods");
    assert_eq!(status["subnets"][0]["state"], "Ready");
    let table = said(&ask(&kubeconfig, &["status"]));
    assert!(table.starts_with("SUBNET   USE    CIDRS"), "{table}");
    assert!(table.contains("20 of 20 pods run."), "{table}");

    let (name, address) = (pods[0].name_any(), addresses(&pods[0])[0].to_string());
    let told = said(&ask(&kubeconfig, &["explain", "pod", &name]));
    assert!(told.contains(&format!("has {address}, of subnet pods.")), "{told}");
    let told = said(&ask(&kubeconfig, &["explain", "ip", &address]));
    assert!(told.contains(&format!("Pod default/{name} on")), "{told}");
    assert_eq!(said(&ask(&kubeconfig, &["check"])), "Nothing disagrees.\n");

    // A repair names its pod by UID: what has its name by now stays.
    let namespace = "default".to_owned();
    let (pod, uid) = (name.clone(), "another".to_owned());
    let repair = Repair::DeletePod {
        namespace,
        name: pod,
        uid,
    };
    repair.apply(&client).await.unwrap();
    let kept = Api::<Pod>::default_namespaced(client).get(&name).await.unwrap();
    assert!(kept.metadata.deletion_timestamp.is_none());

    let gone = ask(&kubeconfig, &["explain", "pod", "nobody"]);
    super::refused(&gone, &["there is no pod default/nobody"]);
}

#[tokio::test]
async fn a_full_subnet_and_an_address_on_two_pods_are_told_with_what_to_do() {
    let parent = tempfile::tempdir().unwrap();
    let mut command = up(parent.path());
    command.args(["--nodes", "1", "--subnet", "10.9.0.0/29"]);
    let berth = Running::start(command);
    let (client, kubeconfig) = (berth.client().await, berth.kubeconfig());
    // More than there are addresses in all.
    deploy_on(&client, 12, "berth-node-1").await;
    let has = |pod: &Pod| !addresses(pod).is_empty();
    let (run, wait, told) = loop {
        let some = |pods: &[Pod]| pods.len() == 12 && pods.iter().any(has);
        let pods = pods_once(&client, some).await;
        let (run, wait): (Vec<Pod>, Vec<Pod>) = pods.into_iter().partition(has);
        let told = said(&ask(&kubeconfig, &["explain", "pod", &wait[0].name_any()]));
        if told.contains("Subnet pods is full") {
            break (run, wait, told);
        }
    };
    assert!(told.contains("append a CIDR to spec.cidrs"), "{told}");

    // By hand, as nothing of ours would: two pods show one address.
    let status = json!({"status": {"podIPs": [{"ip": addresses(&run[0])[0]}]}});
    let api = Api::<Pod>::default_namespaced(client.clone());
    let name = wait[0].name_any();
    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    let checked = ask(&kubeconfig, &["check"]);
    assert_eq!(checked.status.code(), Some(1));
    let table = String::from_utf8(checked.stdout).unwrap();
    assert!(table.contains("is on the pods default/"), "{table}");

    let repaired = ask(&kubeconfig, &["check", "--repair"]);
    let done = String::from_utf8(repaired.stderr.clone()).unwrap();
    assert!(repaired.status.success(), "{repaired:?}");
    let deleted = done.trim().strip_prefix("repaired: delete pod default/").unwrap();
    let pair = [&run[0], &wait[0]].map(|pod| (pod.name_any(), pod.uid()));
    let (_, uid) = pair.iter().find(|(name, _)| name == deleted).unwrap();
    pods_once(&client, |pods| pods.iter().all(|pod| pod.uid() != *uid)).await;
}
