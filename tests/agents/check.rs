//! `berth check` asks each agent what it holds, through a real API server.

use std::process::{Command, Output};

use berth_api::agent::Release;
use berth_e2e::{Seen, socket, wait_for};
use serde_json::{Value, json};

use crate::stage::{Stage, address_of, name, node_of};

const PODS: usize = 10;

fn check(stage: &Stage, more: &[&str]) -> Output {
    let mut command = Command::new(berth_e2e::berth().unwrap());
    let kubeconfig = stage.scene.cluster.kubeconfig();
    command.arg("check").arg("--kubeconfig").arg(kubeconfig);
    command.args(more).output().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_agents_hold_is_asked_through_the_api_server() {
    let stage = Stage::open("agents-check", 2, json!({"cidrs": ["10.64.0.0/16"]})).await;
    for node in stage.nodes() {
        stage.start_agent(node).await;
    }
    // Pods come: nothing disagrees at any time.
    for node in stage.nodes() {
        stage.deploy(node.name(), PODS).await;
    }
    let checks = async {
        for _ in 0..10 {
            let checked = tokio::task::block_in_place(|| check(&stage, &[]));
            assert!(checked.status.success(), "{checked:?}");
            assert!(checked.stderr.is_empty(), "all agents are heard: {checked:?}");
        }
    };
    let (pods, ()) = tokio::join!(stage.run(2 * PODS), checks);

    // A person releases the address of a running pod on the agent's socket.
    let pod = &pods[0];
    let node = stage.scene.node(node_of(pod)).unwrap();
    let mut held = stage.assigned(node).into_iter();
    let line = held.find(|line| line.address.to_string() == address_of(pod)).unwrap();
    let release = Release {
        attachment: line.attachment.unwrap(),
        started: 0,
    };
    let done = socket::release(&node.path("/run/berth"), &release).unwrap();
    assert_eq!(done.released, 1);
    let checked = check(&stage, &["-o", "json"]);
    assert_eq!(checked.status.code(), Some(1), "{checked:?}");
    let findings: Value = serde_json::from_slice(&checked.stdout).unwrap();
    assert_eq!(
        findings[0]["object"],
        format!("pod default/{}", name(pod)),
        "{findings}"
    );
    let problem = findings[0]["problem"].as_str().unwrap();
    let expected = format!("which the agent of {} counts as free", node.name());
    assert!(problem.contains(&expected), "{problem}");

    // An agent that is down is named, and nothing is said of what it holds.
    stage.stop_agent(node);
    let checked = check(&stage, &[]);
    let told = String::from_utf8(checked.stderr.clone()).unwrap();
    assert!(checked.status.success(), "{checked:?}");
    assert!(told.contains(&format!("such as that of {}", node.name())), "{told}");
    stage.start_agent(node).await;

    // Pods go.
    for node in stage.nodes() {
        stage.undeploy(node.name()).await;
    }
    stage.gone().await;
    let look = async || {
        let checked = tokio::task::block_in_place(|| check(&stage, &[]));
        Ok(match checked.status.success() {
            true => Seen::There,
            false => Seen::NotYet(String::from_utf8_lossy(&checked.stdout).into_owned()),
        })
    };
    wait_for(&stage.scene, "nothing disagrees", look).await.unwrap();
}
