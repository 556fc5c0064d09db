//! What went wrong elsewhere, and is not in another file.

use berth_api::agent::Reason;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::play;
use crate::scene::{Scene, add, assignments, settle, until};

#[test]
fn a_spec_that_somebody_empties_is_written_again() {
    play(async |scene: Scene| {
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/16"]})).await;
        scene.node("n1").await;
        let _running = scene.agent("n1").await;
        scene.has("n1", 16).await;
        let none = Patch::Merge(json!({"spec": {"requestedIPCount": 0}}));
        scene
            .configs()
            .patch("n1", &PatchParams::default(), &none)
            .await
            .unwrap();
        scene.has("n1", 16).await;
    });
}

#[test]
fn an_address_of_a_pod_that_somebody_names_as_not_in_use_is_taken_out_of_the_list() {
    play(async |scene: Scene| {
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/16"]})).await;
        scene.node("n1").await;
        let folder = tempfile::tempdir().unwrap();
        let running = scene.start("n1", &folder).await.unwrap();
        scene.has("n1", 16).await;
        let held = until("an address", async || add(&running.agent, 1).await.ok()).await;
        let listed = assignments(&scene.config("n1").await);
        let name = &listed.iter().find(|one| one.ip == held[0]).unwrap().name;
        running.kill().await;
        let named = Patch::Merge(json!({"spec": {"ipsNotInUse": [name]}}));
        scene
            .configs()
            .patch("n1", &PatchParams::default(), &named)
            .await
            .unwrap();
        let running = scene.start("n1", &folder).await.unwrap();
        settle().await;
        // It serves, the pod has what it had, and nobody else gets it.
        assert_eq!(add(&running.agent, 1).await.unwrap(), held);
        for n in 2..18 {
            match add(&running.agent, n).await {
                Ok(other) => assert_ne!(other, held),
                Err(reason) => assert_eq!(reason, Reason::PoolEmpty),
            }
        }
        assert!(!scene.config("n1").await.spec.ips_not_in_use.contains(name));
    });
}

#[test]
fn a_scaler_that_is_gone_does_not_give_the_pool_back() {
    play(async |scene: Scene| {
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/16"]})).await;
        scene.node("n1").await;
        let _running = scene.agent("n1").await;
        scene.create_pods("n1", 0..25).await;
        scene.has("n1", 48).await;
        let none = Patch::Merge(json!({"status": {"scaler": null}}));
        scene
            .configs()
            .patch_status("n1", &PatchParams::default(), &none)
            .await
            .unwrap();
        settle().await;
        scene.has("n1", 48).await;
    });
}

#[test]
fn two_identical_adds_at_once_get_one_address() {
    play(async |scene: Scene| {
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/16"]})).await;
        scene.node("n1").await;
        let running = scene.agent("n1").await;
        running.has_free(16).await;
        let (one, other) = tokio::join!(add(&running.agent, 1), add(&running.agent, 1));
        assert_eq!(one.unwrap(), other.unwrap());
        assert_eq!(running.agent.status().pool.assigned, 1);
    });
}
