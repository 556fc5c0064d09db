//! What went wrong elsewhere, and is not in another file.

use berth_api::agent::Reason;
use berth_testkit::until;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::play;
use super::scene::{Scene, add, assignments, settle};

async fn one_node(scene: &Scene) {
    scene.subnet("pods", json!({"cidrs": ["10.64.0.0/16"]})).await;
    scene.node("n1").await;
}

#[test]
fn a_spec_that_somebody_empties_is_written_again() {
    play(async |scene: Scene| {
        one_node(&scene).await;
        let _running = scene.agent("n1").await;
        scene.has("n1", 16).await;
        let none = Patch::Merge(json!({"spec": {"requestedIPCount": 0}}));
        scene.nncs().patch("n1", &PatchParams::default(), &none).await.unwrap();
        scene.has("n1", 16).await;
    });
}

#[test]
fn an_address_in_use_is_removed_from_ips_not_in_use() {
    play(async |scene: Scene| {
        one_node(&scene).await;
        let directory = tempfile::tempdir().unwrap();
        let running = scene.start("n1", &directory).await.unwrap();
        scene.has("n1", 16).await;
        let held = until("an address", async || add(&running.agent, 1).await.ok()).await;
        let listed = assignments(&scene.nnc("n1").await);
        let name = &listed.iter().find(|one| one.ip == held[0]).unwrap().name;
        running.kill().await;
        let named = Patch::Merge(json!({"spec": {"ipsNotInUse": [name]}}));
        scene.nncs().patch("n1", &PatchParams::default(), &named).await.unwrap();
        let running = scene.start("n1", &directory).await.unwrap();
        settle().await;
        // It serves, the pod has what it had, and nobody else gets it.
        assert_eq!(add(&running.agent, 1).await.unwrap(), held);
        for n in 2..18 {
            match add(&running.agent, n).await {
                Ok(other) => assert_ne!(other, held),
                Err(reason) => assert_eq!(reason, Reason::PoolEmpty),
            }
        }
        assert!(!scene.nnc("n1").await.spec.ips_not_in_use.contains(name));
    });
}

#[test]
fn a_scaler_that_is_gone_does_not_give_the_pool_back() {
    play(async |scene: Scene| {
        one_node(&scene).await;
        let _running = scene.agent("n1").await;
        scene.create_pods("n1", 0..25).await;
        scene.has("n1", 48).await;
        let none = Patch::Merge(json!({"status": {"scaler": null}}));
        scene
            .nncs()
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
        one_node(&scene).await;
        let running = scene.agent("n1").await;
        running.has_free(16).await;
        let (one, other) = tokio::join!(add(&running.agent, 1), add(&running.agent, 1));
        assert_eq!(one.unwrap(), other.unwrap());
        assert_eq!(running.agent.status().pool.assigned, 1);
    });
}

#[test]
fn a_deleted_state_no_longer_applies() {
    play(async |scene: Scene| {
        one_node(&scene).await;
        let running = scene.agent("n1").await;
        scene.create_pods("n1", 0..25).await;
        scene.has("n1", 48).await;
        let state = |exhausted: bool| {
            let state = json!({"metadata": {"name": "pods"}, "status": {"exhausted": exhausted, "timestamp": "now"}});
            serde_json::from_value::<berth_api::ClusterSubnetState>(state).unwrap()
        };
        running.agent.apply_state(&state(true));
        until("one to spare", async || {
            (scene.nnc("n1").await.spec.requested_ip_count == 26).then_some(())
        })
        .await;
        running.agent.delete_state("pods");
        scene.has("n1", 48).await;
    });
}

#[test]
fn a_recreated_node_gives_out_only_addresses_of_its_new_nc() {
    play(async |scene: Scene| {
        one_node(&scene).await;
        let running = scene.agent("n1").await;
        let before = scene.has("n1", 16).await;
        running.has_free(16).await;
        let nodes = kube::Api::<k8s_openapi::api::core::v1::Node>::all(scene.client.clone());
        nodes.delete("n1", &kube::api::DeleteParams::default()).await.unwrap();
        until("the NNC is gone", async || {
            scene.nncs().get_opt("n1").await.unwrap().is_none().then_some(())
        })
        .await;
        until("nothing is given out", async || {
            (running.agent.status().pool.free == 0).then_some(())
        })
        .await;
        scene.node("n1").await;
        let after = scene.has("n1", 16).await;
        running.has_free(16).await;
        let names = |listed: &[berth_api::nnc::IpAssignment]| {
            listed.iter().map(|one| one.name.clone()).collect::<Vec<_>>()
        };
        assert!(names(&after).iter().all(|name| !names(&before).contains(name)));
        let held = add(&running.agent, 1).await.unwrap();
        assert!(after.iter().any(|one| one.ip == held[0]));
    });
}

#[test]
fn after_a_boot_what_was_given_back_is_not_given_out() {
    play(async |scene: Scene| {
        one_node(&scene).await;
        let directory = tempfile::tempdir().unwrap();
        let running = scene.start("n1", &directory).await.unwrap();
        let listed = scene.has("n1", 16).await;
        running.kill().await;
        // The name is in the spec, and the address still in the status: the controllers have not
        // come to it.
        scene.stop_controllers().await;
        let named = Patch::Merge(json!({"spec": {"ipsNotInUse": [listed[0].name]}}));
        let params = PatchParams::default();
        scene.nncs().patch("n1", &params, &named).await.unwrap();
        scene.reboot();
        let running = scene.start("n1", &directory).await.unwrap();
        settle().await;
        let pool = running.agent.status().pool;
        assert_eq!((pool.releasing, pool.free), (1, 15));
        for n in 0..15 {
            assert_ne!(add(&running.agent, n).await.unwrap(), [listed[0].ip.clone()]);
        }
        assert_eq!(add(&running.agent, 15).await, Err(Reason::PoolEmpty));
    });
}

#[test]
fn without_a_container_it_waits_and_starts_when_one_comes() {
    play(async |scene: Scene| {
        // No subnet selects the node yet, so its NNC has no container.
        scene.node("n1").await;
        let nnc = json!({"metadata": {"name": "n1"}, "spec": {"requestedIPCount": 0}});
        let nnc = serde_json::from_value(nnc).unwrap();
        scene
            .nncs()
            .create(&kube::api::PostParams::default(), &nnc)
            .await
            .unwrap();
        let directory = tempfile::tempdir().unwrap();
        let starting = scene.start("n1", &directory);
        settle().await;
        assert!(!starting.is_finished());
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/16"]})).await;
        let running = starting.await.unwrap();
        running.has_free(16).await;
    });
}

#[test]
fn a_short_delivery_does_not_keep_the_pool_from_shrinking() {
    play(async |scene: Scene| {
        // 29 addresses: the container has one.
        scene
            .subnet(
                "pods",
                json!({"cidrs": ["10.64.0.0/27"], "exhaustion": {"enterPercent": 100, "leavePercent": 99}}),
            )
            .await;
        scene.node("n1").await;
        let running = scene.agent("n1").await;
        scene.create_pods("n1", 0..40).await;
        until("it asks for more than there is", async || {
            let nnc = scene.nnc("n1").await;
            (nnc.spec.requested_ip_count > 30 && assignments(&nnc).len() == 29).then_some(())
        })
        .await;
        scene.delete_pods(0..40).await;
        scene.has("n1", 16).await;
        until("the rest is gone", async || {
            (running.agent.status().pool.releasing == 0).then_some(())
        })
        .await;
    });
}
