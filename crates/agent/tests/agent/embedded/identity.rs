//! One agent for a node: on one machine, and among machines.

use std::fs;

use berth_agent::Machine;
use berth_testkit::until;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::play;
use super::scene::{Scene, add, settle};

fn machine(name: &str, boot: u32) -> Machine {
    Machine {
        boot_id: format!("boot-{boot}-of-{name}"),
        machine_id: format!("machine-{name}"),
        system_uuid: format!("UUID-{name}"),
    }
}

/// As a kubelet on that machine reports it.
fn reported(machine: &Machine) -> Value {
    json!({"nodeInfo": {
        "bootID": machine.boot_id, "machineID": machine.machine_id,
        "systemUUID": machine.system_uuid.to_lowercase(),
        "architecture": "amd64", "containerRuntimeVersion": "x://1", "kernelVersion": "6.1",
        "kubeProxyVersion": "", "kubeletVersion": "v1.36.4", "operatingSystem": "linux", "osImage": "Os",
    }})
}

async fn report(scene: &Scene, machine: &Machine) {
    let patch = Patch::Merge(json!({"status": reported(machine)}));
    scene
        .nodes()
        .patch_status("n1", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

async fn one_node_on(scene: &Scene, machine: &Machine) {
    scene.subnet("pods", json!({"cidrs": ["10.64.0.0/16"]})).await;
    scene.node_with("n1", reported(machine)).await;
}

async fn events(scene: &Scene, reason: &str) -> Vec<Event> {
    let events = Api::<Event>::all(scene.client.clone());
    let mut events = events.list(&ListParams::default()).await.unwrap().items;
    events.retain(|event| event.reason.as_deref() == Some(reason));
    events
}

#[test]
fn a_second_agent_for_a_node_is_refused_and_changes_nothing() {
    play(async |scene: Scene| {
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/16"]})).await;
        scene.node("n1").await;
        let directory = tempfile::tempdir().unwrap();
        let running = scene.start("n1", &directory).await.unwrap();
        running.has_free(16).await;
        add(&running.agent, 1).await.unwrap();
        let mark = fs::read(directory.path().join("agent.mark")).unwrap();
        // It has a state directory of its own, and finds the first one's socket, mark and queue.
        let own = tempfile::tempdir().unwrap();
        let state = own.path().join("state");
        let error = scene
            .refused_with("n1", &directory, |options| options.state_dir.clone_from(&state))
            .await;
        assert!(
            error.contains("another agent on this machine serves the node"),
            "{error}"
        );
        assert_eq!(fs::read(directory.path().join("agent.mark")).unwrap(), mark);
        assert!(
            !state.exists(),
            "nothing is written before it is certain that this is the only one"
        );
        // Or it shares nothing with the first one but the machine.
        let error = scene.refused("n1", &own).await;
        assert!(error.contains("--node-name n1"), "{error}");
        assert_eq!(fs::read_dir(own.path()).unwrap().count(), 0);
        add(&running.agent, 2).await.unwrap();
        running.kill().await;
        scene.start("n1", &own).await.unwrap();
    });
}

#[test]
fn an_agent_on_the_wrong_machine_waits_and_emits_an_event() {
    play(async |scene: Scene| {
        let (here, there) = (machine("a", 1), machine("b", 1));
        one_node_on(&scene, &there).await;
        scene.machine.replace(here.clone());
        let directory = tempfile::tempdir().unwrap();
        let starting = scene.start("n1", &directory);
        let found =
            until("an event says so", async || events(&scene, "WrongMachine").await.pop()).await;
        let note = found.message.unwrap_or_default();
        assert!(note.contains("boot-1-of-b") && note.contains("boot-1-of-a"), "{note}");
        settle().await;
        assert!(!starting.is_finished());
        assert!(!directory.path().join("state/journal").exists());
        assert!(
            !directory.path().join("agent.mark").exists()
                && !directory.path().join("agent.sock").exists()
        );
        report(&scene, &here).await;
        let running = starting.await.unwrap();
        running.has_free(16).await;
    });
}

#[test]
fn two_machines_that_fight_for_a_node_do_not_serve_in_turns() {
    play(async |scene: Scene| {
        let (here, there) = (machine("a", 1), machine("b", 1));
        one_node_on(&scene, &there).await;
        scene.machine.replace(here.clone());
        let directory = tempfile::tempdir().unwrap();
        let starting = scene.start("n1", &directory);
        settle().await;
        for _ in 0..20 {
            report(&scene, &here).await;
            settle().await;
            report(&scene, &there).await;
            settle().await;
            assert!(!starting.is_finished());
        }
        report(&scene, &here).await;
        starting.await.unwrap();
    });
}

#[test]
fn after_a_reboot_the_agent_waits_for_kubelet_without_an_event() {
    play(async |scene: Scene| {
        one_node_on(&scene, &machine("a", 1)).await;
        scene.machine.replace(machine("a", 2));
        let directory = tempfile::tempdir().unwrap();
        let starting = scene.start("n1", &directory);
        settle().await;
        assert!(!starting.is_finished());
        report(&scene, &machine("a", 2)).await;
        starting.await.unwrap();
        assert_eq!(events(&scene, "WrongMachine").await, []);
    });
}

#[test]
fn an_agent_whose_node_becomes_another_machine_stops_serving() {
    play(async |scene: Scene| {
        let (here, there) = (machine("a", 1), machine("b", 1));
        one_node_on(&scene, &here).await;
        scene.machine.replace(here.clone());
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("agent.sock");
        let running = scene.start("n1", &directory).await.unwrap();
        running.has_free(16).await;
        let held = add(&running.agent, 1).await.unwrap();
        assert!(socket.exists());
        report(&scene, &there).await;
        until("the socket is gone", async || (!socket.exists()).then_some(())).await;
        report(&scene, &here).await;
        until("the socket is back", async || socket.exists().then_some(())).await;
        // With what it has answered before.
        running.kill().await;
        let running = scene.start("n1", &directory).await.unwrap();
        assert_eq!(add(&running.agent, 1).await.unwrap(), held);
    });
}
