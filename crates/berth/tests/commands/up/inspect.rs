//! `berth status`, `explain` and `check` on a cluster that runs.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output};

use berth_inspect::repair::Repair;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::pods::{addresses, all_run, deploy, deploy_on, has_kubectl, pods_once};
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
    assert!(told.contains(&format!("has {address}, in subnet pods.")), "{told}");
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
async fn a_full_subnet_and_a_duplicate_pod_ip_come_with_a_fix() {
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

#[tokio::test]
async fn under_the_name_of_a_kubectl_plugin_it_is_one() {
    if !has_kubectl() {
        return;
    }
    let parent = tempfile::tempdir().unwrap();
    let berth = Running::start(up(&parent.path().join("data")));
    let programs = parent.path().join("bin");
    std::fs::create_dir(&programs).unwrap();
    let plugin = programs.join("kubectl-berth");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_berth"), plugin).unwrap();
    let mut path = programs.into_os_string();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    let asked = |arguments: &[&str]| {
        let mut kubectl = Command::new("kubectl");
        kubectl.env("PATH", &path).env("KUBECONFIG", berth.kubeconfig());
        kubectl.arg("berth").args(arguments).output().unwrap()
    };
    let status = said(&asked(&["status", "nodes", "-o", "json"]));
    let status: Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status.as_array().unwrap().len(), 3, "{status}");
    let told = said(&asked(&["explain", "subnet", "pods"]));
    assert!(told.contains("Subnet pods has"), "{told}");
    assert_eq!(said(&asked(&["check"])), "Nothing disagrees.\n");
    let gone = asked(&["explain", "pod", "nobody"]);
    assert_eq!(gone.status.code(), Some(1), "{gone:?}");
}

/// A pod and the address that it shows, taken from the agent behind the back of all others.
#[tokio::test]
async fn what_an_agent_no_longer_holds_is_found() {
    let parent = tempfile::tempdir().unwrap();
    let mut command = up(parent.path());
    command.args(["--nodes", "1"]);
    let berth = Running::start(command);
    let (client, kubeconfig) = (berth.client().await, berth.kubeconfig());
    deploy(&client, 3).await;
    let pods = pods_once(&client, all_run(3)).await;
    let checked = ask(&kubeconfig, &["check"]);
    assert_eq!(said(&checked), "Nothing disagrees.\n");
    assert!(checked.stderr.is_empty(), "all agents were heard: {checked:?}");

    let directory = parent.path().join("nodes/berth-node-1");
    let (name, address) = (pods[0].name_any(), addresses(&pods[0])[0].to_string());
    let lines: Value = agent(&directory, "GET /v1/addresses", "");
    let mut lines = lines.as_array().unwrap().iter();
    let held = lines.find(|line| line["address"] == *address).unwrap();
    let release = json!({"attachment": held["attachment"]}).to_string();
    assert_eq!(agent(&directory, "POST /v1/release", &release)["released"], 1);

    let checked = ask(&kubeconfig, &["check", "-o", "json"]);
    assert_eq!(checked.status.code(), Some(1));
    let findings: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(findings.as_array().unwrap().len(), 1, "{findings}");
    assert_eq!(findings[0]["object"], format!("pod default/{name}"));
    let problem = format!("shows {address}, which the agent of berth-node-1 counts as free");
    assert_eq!(findings[0]["problem"], problem);
    assert!(findings[0]["fix"].as_str().unwrap().contains("kubectl delete pod"));

    // Nobody answers on another port, and that is told in one line.
    let checked = ask(&kubeconfig, &["check", "--agent-port", "1"]);
    assert_eq!(said(&checked), "Nothing disagrees.\n");
    let told = String::from_utf8(checked.stderr).unwrap();
    assert!(told.contains("node berth-node-1 does not answer on port 1"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_disagrees_while_pods_come_and_go() {
    let parent = tempfile::tempdir().unwrap();
    let berth = Running::start(up(parent.path()));
    let (client, kubeconfig) = (berth.client().await, berth.kubeconfig());
    deploy(&client, 1).await;
    let deployments = Api::<Deployment>::default_namespaced(client.clone());
    let checks = std::thread::spawn(move || {
        (0..12).map(|_| ask(&kubeconfig, &["check"])).collect::<Vec<Output>>()
    });
    let mut replicas = (5..90).step_by(7).cycle();
    while !checks.is_finished() {
        let scale = json!({"spec": {"replicas": replicas.next()}});
        let params = PatchParams::default();
        deployments.patch("web", &params, &Patch::Merge(scale)).await.unwrap();
        let pods = Api::<Pod>::default_namespaced(client.clone());
        for pod in pods.list(&Default::default()).await.unwrap().iter().take(3) {
            drop(pods.delete(&pod.name_any(), &Default::default()).await);
        }
    }
    for checked in checks.join().unwrap() {
        assert_eq!(said(&checked), "Nothing disagrees.\n");
        assert!(checked.stderr.is_empty(), "{checked:?}");
    }
}

/// What the agent in that directory answers on its socket.
fn agent(directory: &Path, line: &str, body: &str) -> Value {
    let mut stream = UnixStream::connect(directory.join("agent.sock")).unwrap();
    let length = body.len();
    let head = format!("{line} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n");
    let head = format!("{head}Content-Type: application/json\r\nContent-Length: {length}\r\n");
    write!(stream, "{head}\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    serde_json::from_str(body).unwrap()
}
