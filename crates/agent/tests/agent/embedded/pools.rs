//! The pool follows the pods.

use std::collections::BTreeSet;

use berth_api::agent::Reason;
use berth_testkit::until;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::play;
use super::scene::{Scene, add, assignments, del, settle};

async fn one_node(scene: &Scene, cidrs: &[&str]) {
    scene.subnet("pods", json!({"cidrs": cidrs})).await;
    scene.node("n1").await;
}

#[test]
fn an_agent_starts_on_an_empty_container_and_asks_for_a_batch() {
    play(async |scene: Scene| {
        one_node(&scene, &["10.64.0.0/16"]).await;
        let running = scene.agent("n1").await;
        let listed = scene.has("n1", 16).await;
        running.has_free(16).await;
        let address = add(&running.agent, 1).await.unwrap();
        assert!(listed.iter().any(|one| one.ip == address[0]));
        assert!(running.agent.status().ready);
    });
}

#[test]
fn it_grows_in_one_step_and_gives_back_exactly_what_is_free() {
    play(async |scene: Scene| {
        one_node(&scene, &["10.64.0.0/16"]).await;
        let running = scene.agent("n1").await;
        scene.has("n1", 16).await;
        scene.create_pods("n1", 0..75).await;
        scene.has("n1", 96).await;
        running.has_free(96).await;
        let mut held = BTreeSet::new();
        for n in 0..75 {
            held.extend(add(&running.agent, n).await.unwrap());
        }
        assert_eq!(held.len(), 75, "no two pods have the same");
        scene.delete_pods(5..75).await;
        // The pods are gone, but not what they have: it is not for others yet.
        settle().await;
        scene.has("n1", 96).await;
        for n in 5..75 {
            assert_eq!(del(&running.agent, n), 1);
        }
        let left = scene.has("n1", 16).await;
        let left: BTreeSet<&str> = left.iter().map(|one| one.ip.as_str()).collect();
        for n in 0..5 {
            let address = add(&running.agent, n).await.unwrap();
            assert!(left.contains(address[0].as_str()), "a pod's address was given back");
        }
        until("the rest is free", async || {
            let pool = running.agent.status().pool;
            (pool.releasing == 0 && pool.free + pool.cooling_down == 11).then_some(())
        })
        .await;
    });
}

#[test]
fn finished_pods_and_those_on_the_hosts_network_need_nothing() {
    play(async |scene: Scene| {
        one_node(&scene, &["10.64.0.0/16"]).await;
        let _running = scene.agent("n1").await;
        for n in 0..20 {
            scene
                .create_pod("n1", &format!("host-{n}"), json!({"hostNetwork": true}))
                .await;
        }
        settle().await;
        scene.has("n1", 16).await;
        scene.create_pods("n1", 0..9).await;
        scene.has("n1", 32).await;
        // One that ends makes room, without any other event.
        let done = json!({"status": {"phase": "Succeeded"}});
        let params = PatchParams::default();
        scene
            .pods()
            .patch_status("web-3", &params, &Patch::Merge(done))
            .await
            .unwrap();
        scene.has("n1", 16).await;
    });
}

#[test]
fn the_state_of_another_subnet_is_nothing_to_the_node() {
    play(async |scene: Scene| {
        one_node(&scene, &["10.64.0.0/16"]).await;
        let _running = scene.agent("n1").await;
        scene.create_pods("n1", 0..25).await;
        scene.has("n1", 48).await;
        let state = json!({
            "apiVersion": "acn.azure.com/v1alpha1", "kind": "ClusterSubnetState", "metadata": {"name": "elsewhere"},
            "status": {"exhausted": true, "timestamp": "now"},
        });
        let (params, patch) = (PatchParams::apply("scene").force(), Patch::Apply(state));
        scene.states().patch("elsewhere", &params, &patch).await.unwrap();
        scene.states().patch_status("elsewhere", &params, &patch).await.unwrap();
        settle().await;
        scene.has("n1", 48).await;
    });
}

#[test]
fn a_node_keeps_one_spare_address_in_a_nearly_full_subnet() {
    play(async |scene: Scene| {
        scene
            .subnet(
                "pods",
                json!({"cidrs": ["10.64.0.0/27"], "exhaustion": {"enterPercent": 60, "leavePercent": 50}}),
            )
            .await;
        scene.node("n1").await;
        let running = scene.agent("n1").await;
        scene.has("n1", 16).await;
        scene.create_pods("n1", 0..20).await;
        // 20 pods and one to spare.
        scene.has("n1", 21).await;
        running.has_free(21).await;
        assert!(running.agent.status().exhausted);
        for n in 0..20 {
            add(&running.agent, n).await.unwrap();
        }
    });
}

#[test]
fn an_add_on_an_empty_pool_is_refused_at_once() {
    play(async |scene: Scene| {
        one_node(&scene, &["10.64.0.0/29"]).await;
        let running = scene.agent("n1").await;
        // Six addresses, of which one is the container's own.
        running.has_free(5).await;
        for n in 0..5 {
            add(&running.agent, n).await.unwrap();
        }
        assert_eq!(add(&running.agent, 9).await, Err(Reason::PoolEmpty));
        let status = running.agent.status();
        assert!(
            status.ready && status.message.contains("no IPv4 address is free"),
            "{status:?}"
        );
        assert_eq!(del(&running.agent, 2), 1);
        assert!(add(&running.agent, 9).await.is_ok());
    });
}

#[test]
fn an_add_that_may_wait_gets_the_address_that_comes() {
    play(async |scene: Scene| {
        one_node(&scene, &["10.64.0.0/29"]).await;
        let running = scene.agent("n1").await;
        running.has_free(5).await;
        let mut held = Vec::new();
        for n in 0..5 {
            held.push(add(&running.agent, n).await.unwrap());
        }
        let waiting = super::scene::request(&running.agent, 9);
        let waiting = berth_api::agent::Request {
            wait_ms: 30_000,
            ..waiting
        };
        let agent = running.agent.clone();
        let waiting = tokio::spawn(async move { agent.request(waiting).await });
        settle().await;
        assert!(!waiting.is_finished());
        del(&running.agent, 3);
        let granted = waiting.await.unwrap().unwrap();
        assert_eq!(granted.addresses[0].address.to_string(), held[3][0]);
        // One that is detached meanwhile gets nothing.
        let late = berth_api::agent::Request {
            wait_ms: 30_000,
            ..super::scene::request(&running.agent, 10)
        };
        let agent = running.agent.clone();
        let late = tokio::spawn(async move { agent.request(late).await });
        settle().await;
        del(&running.agent, 10);
        let refusal = late.await.unwrap().unwrap_err();
        assert_eq!(refusal.reason, Reason::Detached);
        // And time is up for one that nothing comes for.
        let never = berth_api::agent::Request {
            wait_ms: 2_000,
            ..super::scene::request(&running.agent, 11)
        };
        let refusal = running.agent.request(never).await.unwrap_err();
        assert_eq!(refusal.reason, Reason::PoolEmpty);
    });
}

#[test]
fn with_two_families_a_pod_gets_one_of_each() {
    play(async |scene: Scene| {
        one_node(&scene, &["10.64.0.0/16", "fd64::/64"]).await;
        let running = scene.agent("n1").await;
        running.has_free(16).await;
        let listed = assignments(&scene.nnc("n1").await);
        assert_eq!(listed.len(), 32);
        let both = add(&running.agent, 1).await.unwrap();
        assert!(
            both[0].starts_with("10.64.") && both[1].starts_with("fd64:"),
            "{both:?}"
        );
        scene.create_pods("n1", 0..20).await;
        running.has_free(31).await;
        scene.delete_pods(0..20).await;
        until("it has one batch", async || {
            let nnc = scene.nnc("n1").await;
            (nnc.spec.requested_ip_count == 16 && assignments(&nnc).len() == 32).then_some(())
        })
        .await;
        assert_eq!(add(&running.agent, 1).await.unwrap(), both);
    });
}

#[test]
fn a_deleted_nnc_is_recreated_with_the_addresses_pods_have() {
    play(async |scene: Scene| {
        one_node(&scene, &["10.64.0.0/16"]).await;
        let running = scene.agent("n1").await;
        scene.has("n1", 16).await;
        let held = until("an address", async || add(&running.agent, 1).await.ok()).await;
        let before = scene.nnc("n1").await.uid();
        scene
            .nncs()
            .delete("n1", &kube::api::DeleteParams::default())
            .await
            .unwrap();
        until("there is another", async || {
            let nnc = scene.nncs().get_opt("n1").await.unwrap()?;
            (nnc.uid() != before).then_some(())
        })
        .await;
        scene.has("n1", 16).await;
        // The pod keeps what it has, it is still this node's, and no other pod here gets it.
        let listed = assignments(&scene.nnc("n1").await);
        assert!(listed.iter().any(|one| one.ip == held[0]), "{held:?} in {listed:?}");
        assert_eq!(add(&running.agent, 1).await.unwrap(), held);
        until("there is one for another pod", async || {
            add(&running.agent, 2).await.ok()
        })
        .await;
        assert_ne!(add(&running.agent, 2).await.unwrap(), held);
    });
}

#[test]
fn the_first_pods_address_takes_one_spec_and_one_status_write() {
    play(async |scene: Scene| {
        one_node(&scene, &["10.64.0.0/16"]).await;
        scene.create_pods("n1", 0..1).await;
        let nncs = scene.nncs();
        until("the node has a container", async || {
            let status = nncs.get_opt("n1").await.unwrap()?.status?;
            status.network_containers.first().map(drop)
        })
        .await;
        settle().await;
        let empty = scene.nnc("n1").await;
        assert_eq!(assignments(&empty), []);
        let began = tokio::time::Instant::now();
        let running = scene.agent("n1").await;
        let waiting = berth_api::agent::Request {
            wait_ms: 30_000,
            ..super::scene::request(&running.agent, 0)
        };
        running.agent.request(waiting).await.unwrap();
        assert!(
            began.elapsed() < std::time::Duration::from_secs(1),
            "somebody waited for a time to come"
        );
        // The agent's spec and the controller's status, each written once; the third round trip is
        // the watch that brings it.
        let full = scene.nnc("n1").await;
        assert_eq!(
            full.metadata.generation,
            empty.metadata.generation.map(|generation| generation + 1)
        );
        assert_eq!(version(&full), version(&empty) + 1);
    });
}

/// Of the container: it goes up with every change of its addresses.
fn version(nnc: &berth_api::NodeNetworkConfig) -> i64 {
    nnc.status.as_ref().unwrap().network_containers[0].version
}
