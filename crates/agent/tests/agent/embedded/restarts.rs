//! An agent that is killed and started again.

use std::fs;

use berth_api::agent::{AddressState, Reason};
use berth_testkit::until;
use serde_json::json;

use super::play;
use super::scene::{Running, Scene, add, del, settle};

async fn started(scene: &Scene, directory: &tempfile::TempDir) -> Running {
    let running = scene.start("n1", directory).await.unwrap();
    until("it has a batch", async || {
        let pool = running.agent.status().pool;
        (pool.free + pool.cooling_down + pool.assigned + pool.quarantined >= 16).then_some(())
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
        let directory = tempfile::tempdir().unwrap();
        let running = started(&scene, &directory).await;
        let mut held = Vec::new();
        for n in 0..8 {
            held.push(add(&running.agent, n).await.unwrap());
        }
        del(&running.agent, 7);
        running.kill().await;
        let running = started(&scene, &directory).await;
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
        let directory = tempfile::tempdir().unwrap();
        let running = started(&scene, &directory).await;
        add(&running.agent, 1).await.unwrap();
        running.kill().await;
        scene.reboot();
        let running = started(&scene, &directory).await;
        assert_eq!(running.agent.status().pool.assigned, 0);
        assert_eq!(running.agent.status().pool.free, 16);
    });
}

#[test]
fn a_lost_journal_quarantines_and_new_addresses_serve_meanwhile() {
    play(async |scene: Scene| {
        one_node(&scene).await;
        let directory = tempfile::tempdir().unwrap();
        let running = started(&scene, &directory).await;
        let held = add(&running.agent, 1).await.unwrap();
        scene.create_pod("n1", "web-1", json!({})).await;
        scene.show("web-1", &held[0]).await;
        running.kill().await;
        fs::remove_file(directory.path().join("state/journal")).unwrap();
        let running = started(&scene, &directory).await;
        assert_eq!(running.agent.status().pool.quarantined, 16);
        // More come, and pods get those: the node does not stand still.
        let fresh = until("a new address", async || add(&running.agent, 2).await.ok()).await;
        assert_ne!(fresh, held);
        // When the time is over, all but what the living pod shows is free again.
        until("it is over", async || {
            (running.agent.status().pool.quarantined == 1).then_some(())
        })
        .await;
        let lines = running.agent.addresses();
        let line = lines.iter().find(|line| line.address.to_string() == held[0]).unwrap();
        assert_eq!(line.state, AddressState::Quarantined);
        scene.delete_pods(1..2).await;
        until("the pod is gone", async || {
            (running.agent.status().pool.quarantined == 0).then_some(())
        })
        .await;
        settle().await;
        // The pool is back to what the formula says.
        scene.has("n1", 16).await;
    });
}

#[test]
fn nothing_is_answered_before_the_nnc_is_observed() {
    play(async |scene: Scene| {
        let directory = tempfile::tempdir().unwrap();
        let starting = scene.start("n1", &directory);
        settle().await;
        assert!(!starting.is_finished());
        assert!(!directory.path().join("agent.sock").exists());
        one_node(&scene).await;
        let running = starting.await.unwrap();
        assert!(directory.path().join("agent.sock").exists());
        assert!(matches!(add(&running.agent, 1).await, Ok(_) | Err(Reason::PoolEmpty)));
    });
}

#[test]
fn a_second_agent_in_the_same_directory_is_refused() {
    play(async |scene: Scene| {
        one_node(&scene).await;
        let directory = tempfile::tempdir().unwrap();
        let running = started(&scene, &directory).await;
        // One of another node, for of this node there can be one anyway.
        let error = scene.refused("n2", &directory).await;
        assert!(error.contains("another agent uses it"), "{error}");
        assert!(add(&running.agent, 1).await.is_ok());
        running.kill().await;
        started(&scene, &directory).await;
    });
}

#[test]
fn with_all_its_files_gone_what_living_pods_show_is_theirs() {
    play(async |scene: Scene| {
        one_node(&scene).await;
        let directory = tempfile::tempdir().unwrap();
        let running = started(&scene, &directory).await;
        let held = add(&running.agent, 1).await.unwrap();
        scene.create_pod("n1", "web-1", json!({})).await;
        scene.create_pod("n1", "proxy", json!({"hostNetwork": true})).await;
        scene.show("web-1", &held[0]).await;
        scene.show("proxy", "192.0.2.1").await;
        running.kill().await;
        let directory = tempfile::tempdir().unwrap();
        let running = started(&scene, &directory).await;
        assert!(running.agent.is_quarantined());
        until("it is over", async || {
            (running.agent.status().pool.quarantined == 1).then_some(())
        })
        .await;
        scene.delete_pods(1..2).await;
        // One on the host's network shows the node's address, which is no reason to quarantine.
        until("it is certain", async || {
            (!running.agent.is_quarantined()).then_some(())
        })
        .await;
        running.kill().await;
        let running = started(&scene, &directory).await;
        assert!(!running.agent.is_quarantined());
    });
}
