//! Only one agent serves a node: not a second one on its machine, and not one on another machine.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use anyhow::{Context, Result};
use berth_e2e::{Seen, roles, wait_for};
use berth_testbed::{Component, Node};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

use crate::stage::Stage;

const METRICS: &str = "127.0.0.1:9399";
/// The part of a mark with the boot, and with the id of its journal.
const BOOT_AND_ID: usize = 64 + 8;

/// Starts an agent that shares no file with the first. A shell runs `before` first, in a mount
/// namespace of its own.
async fn start_second(stage: &Stage, node: &Node, before: &str, more: &[&str]) -> Component {
    let mut command = node.command("unshare");
    command.args(["--mount", "sh", "-c", &format!("{before}\nexec \"$@\""), "second"]);
    command
        .arg(berth_e2e::berth().unwrap())
        .arg("agent")
        .arg("--kubeconfig");
    command.arg(roles::of_agent(&stage.scene, node.name()).await.unwrap());
    command.args([
        "--node-name",
        node.name(),
        "--cri-socket",
        "",
        "--metrics-listen",
        METRICS,
    ]);
    command.args(["--socket", "/run/second/agent.sock", "--state-dir", "/var/lib/second"]);
    command
        .args(["--queue-dir", "/var/lib/second/release-queue"])
        .args(more);
    node.start_component("second-agent", command).unwrap()
}

fn readyz(node: &Node) -> Result<String> {
    node.on_network(|| {
        let mut stream = TcpStream::connect(METRICS)?;
        write!(stream, "GET /readyz HTTP/1.0\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (_, body) = answer.split_once("\r\n\r\n").context("no body")?;
        Ok(body.to_owned())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_agent_of_a_node_gives_out_nothing_wherever_it_is() {
    let stage = Stage::open("agents-only", 1, json!({"cidrs": ["10.64.0.0/16"]})).await;
    let node = &stage.nodes()[0];
    stage.start_agent(node).await;
    stage.deploy(node.name(), 4).await;
    stage.run(4).await;
    let mark = fs::read(node.path("/run/berth/agent.mark")).unwrap();

    // On the node's machine.
    let mut second = start_second(&stage, node, ":", &[]).await;
    let mut said = String::new();
    let look = async || {
        Ok(match second.check() {
            Err(error) => {
                said = format!("{error:#}");
                Seen::There
            }
            Ok(()) => Seen::NotYet("it runs".to_owned()),
        })
    };
    wait_for(&stage.scene, "the second agent ends", look).await.unwrap();
    assert!(said.contains("another agent on this machine serves the node"), "{said}");
    assert!(!node.path("/var/lib/second/journal").exists() && !node.path("/run/second").exists());

    // On a machine that was cloned from the node's. It does not see the lock of the first agent.
    let clone = "echo 01234567-89ab-4cde-8f01-23456789abcd >/run/boot_id\n\
                 echo 0123456789abcdef0123456789abcdef >/run/machine-id\n\
                 mount --bind /run/boot_id /proc/sys/kernel/random/boot_id\n\
                 [ ! -e /etc/machine-id ] || mount --bind /run/machine-id /etc/machine-id";
    let mut second = start_second(&stage, node, clone, &["--lock-dir", "/run/second-locks"]).await;
    let events = Api::<Event>::all(stage.scene.client.clone());
    let look = async || {
        second.check()?;
        let listed = events.list(&ListParams::default()).await?.items;
        let told = listed
            .iter()
            .any(|event| event.reason.as_deref() == Some("WrongMachine"));
        let ready = readyz(node).unwrap_or_default();
        let why = ready.contains("is another machine") && ready.contains("01234567-89ab-4cde-8f01");
        Ok(if told && why {
            Seen::There
        } else {
            Seen::NotYet(format!("event: {told}, readyz: {ready}"))
        })
    };
    wait_for(&stage.scene, "the second agent says why it serves nobody", look)
        .await
        .unwrap();
    assert!(!node.path("/run/second/agent.sock").exists(), "nobody is served");
    assert!(!node.path("/var/lib/second/journal").exists());

    // The first agent goes on with its own journal.
    let now = fs::read(node.path("/run/berth/agent.mark")).unwrap();
    assert_eq!(
        now[..BOOT_AND_ID],
        mark[..BOOT_AND_ID],
        "the mark is of the same journal"
    );
    stage.undeploy(node.name()).await;
    stage.gone().await;
    stage.cleared(node).await;
    second.process().unwrap().kill().unwrap();
}
