//! An agent that is killed and started again.

use std::fs;

use berth_api::agent::{AddressState, Reason};
use serde_json::json;

use crate::play;
use crate::scene::{Running, Scene, add, del, settle, until};

async fn started(scene: &Scene, folder: &tempfile::TempDir) -> Running {
    let running = scene.start("n1", folder).await.unwrap();
    until("it has a batch", async || {
        let pool = running.agent.status().pool;
        (pool.free + pool.resting + pool.assigned + pool.uncertain >= 16).then_some(())
    })
    .await;
    running
}

async fn one_node(scene: &Scene) {
    scene.subnet("pods", json!({"cidrs": ["10.64.0.0/16"]})).await;
    scene.node("n1").await;
}

#[test]
fn every_pod_has_after_a_restart_what_it_had_before() {
    play(async |scene: Scene| {
        one_node(&scene).await;
        let folder = tempfile::tempdir().unwrap();
        let running = started(&scene, &folder).await;
        let mut held = Vec::new();
        for n in 0..8 {
            held.push(add(&running.agent, n).await.unwrap());
        }
        del(&running.agent, 7);
        running.kill().await;
        let running = started(&scene, &folder).await;
        assert_eq!(running.agent.status().pool.assigned, 7);
        for n in 0..7 {
            assert_eq!(add(&running.agent, n).await.unwrap(), held[n as usize]);
        }
        let fresh = add(&running.agent, 20).await.unwrap();
        assert!(
            !held.contains(&fresh),
            "what came free last is given last, also after a restart"
        );
    });
}

#[test]
fn after_a_boot_nobody_has_anything() {
    play(async |scene: Scene| {
        one_node(&scene).await;
        let folder = tempfile::tempdir().unwrap();
        let running = started(&scene, &folder).await;
        add(&running.agent, 1).await.unwrap();
        running.kill().await;
        scene.reboot();
        let running = started(&scene, &folder).await;
        assert_eq!(running.agent.status().pool.assigned, 0);
        assert_eq!(running.agent.status().pool.free, 16);
    });
}

#[test]
fn a_journal_that_is_gone_makes_the_pool_uncertain_and_new_addresses_serve_meanwhile() {
    play(async |scene: Scene| {
        one_node(&scene).await;
        let folder = tempfile::tempdir().unwrap();
        let running = started(&scene, &folder).await;
        let held = add(&running.agent, 1).await.unwrap();
        scene.create_pod("n1", "web-1", json!({})).await;
        scene.show("web-1", &held[0]).await;
        running.kill().await;
        fs::remove_file(folder.path().join("state/journal")).unwrap();
        let running = started(&scene, &folder).await;
        assert_eq!(running.agent.status().pool.uncertain, 16);
        // More come, and pods get those: the node does not stand still.
        let fresh = until("a new address", async || add(&running.agent, 2).await.ok()).await;
        assert_ne!(fresh, held);
        // When the time is over, all but what the living pod shows is free again.
        until("it is over", async || {
            (running.agent.status().pool.uncertain == 1).then_some(())
        })
        .await;
        let lines = running.agent.addresses();
        let line = lines.iter().find(|line| line.address.to_string() == held[0]).unwrap();
        assert_eq!(line.state, AddressState::Uncertain);
        scene.delete_pods(1..2).await;
        until("the pod is gone", async || {
            (running.agent.status().pool.uncertain == 0).then_some(())
        })
        .await;
        settle().await;
        // The pool is back to what the formula says.
        scene.has("n1", 16).await;
    });
}

#[test]
fn nothing_is_answered_before_the_config_is_seen() {
    play(async |scene: Scene| {
        let folder = tempfile::tempdir().unwrap();
        let starting = scene.start("n1", &folder);
        settle().await;
        assert!(!starting.is_finished());
        assert!(!folder.path().join("agent.sock").exists());
        one_node(&scene).await;
        let running = starting.await.unwrap();
        assert!(folder.path().join("agent.sock").exists());
        assert!(matches!(add(&running.agent, 1).await, Ok(_) | Err(Reason::PoolEmpty)));
    });
}

#[test]
fn a_second_agent_on_the_same_folder_is_refused_and_the_first_goes_on() {
    play(async |scene: Scene| {
        one_node(&scene).await;
        let folder = tempfile::tempdir().unwrap();
        let running = started(&scene, &folder).await;
        // One of another node, for of this node there can be one anyway.
        let error = scene.refused("n2", &folder).await;
        assert!(error.contains("another agent uses it"), "{error}");
        assert!(add(&running.agent, 1).await.is_ok());
        running.kill().await;
        started(&scene, &folder).await;
    });
}

#[test]
fn with_all_its_files_gone_what_living_pods_show_is_theirs() {
    play(async |scene: Scene| {
        one_node(&scene).await;
        let folder = tempfile::tempdir().unwrap();
        let running = started(&scene, &folder).await;
        let held = add(&running.agent, 1).await.unwrap();
        scene.create_pod("n1", "web-1", json!({})).await;
        scene.create_pod("n1", "proxy", json!({"hostNetwork": true})).await;
        scene.show("web-1", &held[0]).await;
        scene.show("proxy", "192.0.2.1").await;
        running.kill().await;
        let folder = tempfile::tempdir().unwrap();
        let running = started(&scene, &folder).await;
        assert!(running.agent.is_in_doubt());
        until("it is over", async || {
            (running.agent.status().pool.uncertain == 1).then_some(())
        })
        .await;
        scene.delete_pods(1..2).await;
        // One on the host's network shows the node's address, which is no reason to doubt.
        until("it is certain", async || (!running.agent.is_in_doubt()).then_some(())).await;
        running.kill().await;
        let running = started(&scene, &folder).await;
        assert!(!running.agent.is_in_doubt());
    });
}
