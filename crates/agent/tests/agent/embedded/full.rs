//! A node that has no address for the next pod says so on its Node, and is not broken.

use berth_api::names::POD_ADDRESSES_AVAILABLE;
use berth_testkit::until;
use k8s_openapi::api::core::v1::NodeCondition;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::play;
use super::scene::{Scene, add, del, settle};

async fn condition(scene: &Scene) -> Option<NodeCondition> {
    let node = scene.nodes().get("n1").await.unwrap();
    let mut conditions = node.status?.conditions?.into_iter();
    conditions.find(|condition| condition.type_ == POD_ADDRESSES_AVAILABLE)
}

async fn says(scene: &Scene, status: &str, reason: &str) -> NodeCondition {
    until(&format!("the condition is {status}, {reason}"), async || {
        let shown = condition(scene).await?;
        let expected = shown.status == status && shown.reason.as_deref() == Some(reason);
        expected.then_some(shown)
    })
    .await
}

#[test]
fn a_full_node_is_ready_and_its_condition_says_that_it_is_full() {
    play(async |scene: Scene| {
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/29"]})).await;
        scene.node("n1").await;
        scene.create_pods("n1", 0..5).await;
        let running = scene.agent("n1").await;
        running.has_free(5).await;
        says(&scene, "True", "AddressesFree").await;
        for n in 0..5 {
            add(&running.agent, n).await.unwrap();
        }
        assert!(add(&running.agent, 10).await.is_err());
        let full = says(&scene, "False", "SubnetFull").await;
        assert!(running.agent.status().ready, "{:?}", running.agent.status());
        let message = full.message.unwrap();
        assert!(message.contains("5 are assigned"), "{message}");
        // Not again while it stays so, whoever asks in vain.
        let version = scene.nodes().get("n1").await.unwrap().resource_version();
        for n in 10..20 {
            assert!(add(&running.agent, n).await.is_err());
            settle().await;
        }
        assert_eq!(scene.nodes().get("n1").await.unwrap().resource_version(), version);
        for n in 10..20 {
            del(&running.agent, n);
        }
        assert_eq!(del(&running.agent, 1), 1);
        scene.delete_pods(1..2).await;
        says(&scene, "True", "AddressesFree").await;
    });
}

#[test]
fn a_pool_that_is_refilled_leaves_its_condition_alone() {
    play(async |scene: Scene| {
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/16"]})).await;
        scene.node("n1").await;
        let running = scene.agent("n1").await;
        running.has_free(16).await;
        says(&scene, "True", "AddressesFree").await;
        let version = scene.nodes().get("n1").await.unwrap().resource_version();
        // Nobody gives the node more, so that the pool stays empty for as long as the test wants
        // it.
        scene.stop_controllers().await;
        for n in 0..16 {
            add(&running.agent, n).await.unwrap();
        }
        for n in 16..40 {
            assert!(add(&running.agent, n).await.is_err());
            settle().await;
        }
        assert_eq!(running.agent.status().pool.free, 0);
        for n in 0..8 {
            del(&running.agent, n);
            settle().await;
        }
        assert_eq!(scene.nodes().get("n1").await.unwrap().resource_version(), version);
    });
}

#[test]
fn the_most_that_the_scaler_allows_is_told_as_the_reason() {
    play(async |scene: Scene| {
        let scaler = json!({
            "batchSize": 4, "requestThresholdPercent": 50, "releaseThresholdPercent": 150, "maxIPCount": 8,
        });
        scene
            .subnet("pods", json!({"cidrs": ["10.64.0.0/16"], "scaler": scaler}))
            .await;
        scene.node("n1").await;
        let running = scene.agent("n1").await;
        scene.create_pods("n1", 0..9).await;
        running.has_free(8).await;
        for n in 0..8 {
            add(&running.agent, n).await.unwrap();
        }
        let full = says(&scene, "False", "MaxIPCountReached").await;
        let message = full.message.unwrap();
        assert!(
            message.contains("1 pods wait") && message.ends_with("maxIPCount allows 8"),
            "{message}"
        );
        // The one that waits takes what comes free: the node is as full as before.
        let version = scene.nodes().get("n1").await.unwrap().resource_version();
        del(&running.agent, 0);
        settle().await;
        add(&running.agent, 8).await.unwrap();
        settle().await;
        assert_eq!(scene.nodes().get("n1").await.unwrap().resource_version(), version);
    });
}

#[test]
fn a_pool_is_never_larger_than_the_node_runs_pods() {
    play(async |scene: Scene| {
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/16"]})).await;
        scene.node_with("n1", json!({"allocatable": {"pods": "10"}})).await;
        let running = scene.agent("n1").await;
        scene.has("n1", 10).await;
        running.has_free(10).await;
        scene.create_pods("n1", 0..10).await;
        settle().await;
        scene.has("n1", 10).await;
        // A kubelet that takes more pods is given more addresses, and one that takes fewer gives
        // them back.
        for (pods, expected) in [("20", 20), ("250", 32), ("12", 12)] {
            let patch = json!({"status": {"allocatable": {"pods": pods}}});
            let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
            scene.nodes().patch_status("n1", &params, &patch).await.unwrap();
            scene.has("n1", expected).await;
        }
    });
}
