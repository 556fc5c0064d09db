//! The agents of `berth up`: what they say of a full node, and that a node has one.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use berth_api::agent::{STATUS, Status};
use berth_api::names::POD_ADDRESSES_AVAILABLE;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use kube::Api;
use kube::api::ListParams;

use super::pods::deploy_on;
use super::{Running, berth, up};

const POLL_INTERVAL: Duration = Duration::from_millis(50);

#[tokio::test(flavor = "multi_thread")]
async fn a_full_node_is_ready_and_says_that_it_is_full() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = up(directory.path());
    command.args(["--nodes", "1", "--subnet", "10.9.0.0/28"]);
    let running = Running::start(command);
    let client = running.client().await;
    deploy_on(&client, 20, "berth-node-1").await;
    let nodes = Api::<Node>::all(client);
    loop {
        let node = nodes.get("berth-node-1").await.unwrap();
        let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
        let told = conditions.iter().find(|one| one.type_ == POD_ADDRESSES_AVAILABLE);
        if told.is_some_and(|told| {
            told.status == "False" && told.reason.as_deref() == Some("SubnetFull")
        }) {
            break;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    let socket = directory.path().join("nodes/berth-node-1/agent.sock");
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(
        stream,
        "GET {STATUS} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let status: Status = serde_json::from_str(body).unwrap();
    assert!(
        status.ready && status.pool.free + status.pool.cooling_down == 0,
        "{status:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_of_this_machine_is_not_a_virtual_nodes() {
    let directory = tempfile::tempdir().unwrap();
    let running = Running::start({
        let mut command = up(&directory.path().join("up"));
        command.args(["--nodes", "1"]);
        command
    });
    let mut second = berth();
    second.args([
        "agent",
        "--node-name",
        "berth-node-1",
        "--cri-socket",
        "",
        "--kubeconfig",
    ]);
    second.arg(running.kubeconfig());
    for (flag, name) in [
        ("--socket", "agent.sock"),
        ("--state-dir", "state"),
        ("--queue-dir", "queue"),
        ("--lock-dir", "locks"),
    ] {
        second.arg(flag).arg(directory.path().join(name));
    }
    let mut second = second.stdin(Stdio::null()).spawn().unwrap();
    let events = Api::<Event>::all(running.client().await);
    loop {
        let listed = events.list(&ListParams::default()).await.unwrap().items;
        if listed
            .iter()
            .any(|event| event.reason.as_deref() == Some("WrongMachine"))
        {
            break;
        }
        assert!(
            !directory.path().join("agent.sock").exists(),
            "two agents serve one node"
        );
        assert!(second.try_wait().unwrap().is_none(), "it waits");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    assert!(!directory.path().join("state/journal").exists());
    second.kill().unwrap();
    second.wait().unwrap();
}
