//! Controllers that die, that come back, and that are two; and what people do meanwhile.

use std::collections::BTreeSet;

use berth_api::{NodeNetworkConfig, names};
use berth_nodenet::controllers::Controller;
use berth_testkit::until;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use super::play;
use super::scene::{Scene, addresses, containers, names_of, settle};

async fn with_one_node(scene: &Scene) {
    scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
    scene.node("n1").await;
    scene.container("n1").await;
    scene.ask("n1", 8, &[]).await;
    scene.with_addresses("n1", 8).await;
}

#[test]
fn a_restarted_controller_writes_nothing_and_keeps_addresses() {
    play(async |scene: Scene| {
        let first = scene.start();
        with_one_node(&scene).await;
        settle().await;
        let before = scene.nncs().get("n1").await.unwrap();
        let stopping = Instant::now();
        first.stop().await;
        scene.check_at_once(stopping);

        let _second = scene.start();
        settle().await;
        let after = scene.nncs().get("n1").await.unwrap();
        assert_eq!(
            after.resource_version(),
            before.resource_version(),
            "nothing was written"
        );
        scene.ask("n1", 10, &[]).await;
        let grown = scene.with_addresses("n1", 10).await;
        let kept: BTreeSet<String> = addresses(&before).into_iter().collect();
        assert!(
            kept.is_subset(
                &grown
                    .ip_assignments
                    .into_iter()
                    .map(|assignment| assignment.ip)
                    .collect()
            )
        );
    });
}

#[test]
fn two_active_controllers_give_no_address_twice() {
    play(async |scene: Scene| {
        let _one = scene.start();
        let _other = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        let names: Vec<String> = (0..20).map(|n| format!("n{n}")).collect();
        for name in &names {
            scene.node(name).await;
        }
        for round in 1..=5 {
            for name in &names {
                scene.container(name).await;
                let nnc = scene.nncs().get(name).await.unwrap();
                // Some of what it has goes back, and it wants others.
                let back: Vec<String> =
                    names_of(&containers(&nnc)[0]).into_iter().take(round).collect();
                let wanted = i64::try_from(round + names.len() % 3).unwrap();
                scene.ask(name, wanted, &back).await;
            }
            scene.check_no_address_is_given_twice().await;
        }
        // Each has what it asks for, and the store has it for them and nothing else.
        until("both agree", async || {
            let mut listed = 0;
            for name in &names {
                let nnc = scene.nncs().get(name).await.unwrap();
                let has = addresses(&nnc).len();
                if i64::try_from(has).ok() != Some(nnc.spec.requested_ip_count) {
                    return None;
                }
                listed += 1 + has;
            }
            (scene.owned("pods").await == listed).then_some(())
        })
        .await;
        scene.check_no_address_is_given_twice().await;
    });
}

#[test]
fn addresses_of_a_node_deleted_during_downtime_are_reclaimed() {
    play(async |scene: Scene| {
        let first = scene.start();
        with_one_node(&scene).await;
        first.stop().await;
        scene.delete(&scene.nodes(), "n1").await;
        settle().await;
        assert_eq!(scene.owned("pods").await, 9);
        let held = scene.nncs().get("n1").await.unwrap();
        assert!(held.metadata.deletion_timestamp.is_some(), "its finalizer holds it");

        let _second = scene.start();
        until("the NNC is gone", async || {
            scene.nncs().get_opt("n1").await.unwrap().is_none().then_some(())
        })
        .await;
        settle().await;
        assert_eq!(scene.owned("pods").await, 9, "it may come back");
        until("it is taken back", async || {
            (scene.owned("pods").await == 0).then_some(())
        })
        .await;
    });
}

#[test]
fn an_nnc_of_a_deleted_node_is_removed_without_the_gc() {
    play(async |scene: Scene| {
        let first = scene.start();
        with_one_node(&scene).await;
        first.stop().await;
        // As if the server had lost the connection between the two.
        let orphan = kube::api::DeleteParams::orphan();
        scene.nodes().delete("n1", &orphan).await.unwrap();
        settle().await;
        let nnc = scene.nncs().get("n1").await.unwrap();
        assert_eq!(nnc.metadata.deletion_timestamp, None);
        let owner = json!({"metadata": {"ownerReferences": [{
            "apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "of-a-node-that-is-gone",
            "controller": true,
        }]}});
        scene.patch(&scene.nncs(), "n1", owner).await;
        let _second = scene.start();
        until("the NNC is gone", async || {
            scene.nncs().get_opt("n1").await.unwrap().is_none().then_some(())
        })
        .await;
    });
}

#[test]
fn a_recreated_node_gets_its_own_network_container() {
    play(async |scene: Scene| {
        let first = scene.start();
        with_one_node(&scene).await;
        let before = scene.container("n1").await;
        first.stop().await;
        scene.delete(&scene.nodes(), "n1").await;
        let node = scene.node("n1").await;

        let _second = scene.start();
        let is_new = |nnc: &NodeNetworkConfig| {
            let owner = nnc.owner_references().first().map(|owner| owner.uid.clone());
            owner == node.metadata.uid && !containers(nnc).is_empty()
        };
        let nnc = scene.nnc("n1", "is of the new node", is_new).await;
        let after = &containers(&nnc)[0];
        assert_ne!(after.id, before.id);
        assert!(after.ip_assignments.is_empty());
        assert_eq!(scene.owned("pods").await, 10, "what the old one had may be in use");
        until("it is taken back", async || {
            (scene.owned("pods").await == 1).then_some(())
        })
        .await;
    });
}

#[test]
fn an_nnc_deleted_by_hand_is_recreated_with_its_addresses() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        with_one_node(&scene).await;
        let before = scene.nncs().get("n1").await.unwrap();
        scene.delete(&scene.nncs(), "n1").await;
        let is_another =
            |nnc: &NodeNetworkConfig| nnc.uid() != before.uid() && !containers(nnc).is_empty();
        let after = scene.nnc("n1", "is made again", is_another).await;
        assert_eq!(after.spec.requested_ip_count, 0);
        assert_eq!(
            containers(&after)[0].ip_assignments,
            containers(&before)[0].ip_assignments
        );
        assert_eq!(scene.owned("pods").await, 9);
    });
}

#[test]
fn a_finalizer_taken_off_by_hand_is_put_back() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        with_one_node(&scene).await;
        scene
            .patch(&scene.nncs(), "n1", json!({"metadata": {"finalizers": null}}))
            .await;
        let has_it =
            |nnc: &NodeNetworkConfig| nnc.finalizers().contains(&names::FINALIZER.to_owned());
        let nnc = scene.nnc("n1", "has its finalizer again", has_it).await;
        assert_eq!((nnc.spec.requested_ip_count, addresses(&nnc).len()), (8, 8));
    });
}

#[test]
fn an_nnc_deleted_past_its_finalizer_gets_its_addresses_back() {
    play(async |scene: Scene| {
        let first = scene.start();
        with_one_node(&scene).await;
        let before = scene.nncs().get("n1").await.unwrap();
        first.stop().await;
        scene.delete(&scene.nncs(), "n1").await;
        scene
            .patch(&scene.nncs(), "n1", json!({"metadata": {"finalizers": null}}))
            .await;
        assert!(scene.nncs().get_opt("n1").await.unwrap().is_none());

        let _second = scene.start();
        scene.container("n1").await;
        let after = scene.nncs().get("n1").await.unwrap();
        assert_eq!(addresses(&after), addresses(&before));
        assert_eq!(scene.owned("pods").await, 9);
    });
}

#[test]
fn a_recreated_network_container_reuses_no_assignment_names() {
    play(async |scene: Scene| {
        let controller = scene.start();
        with_one_node(&scene).await;
        let before = scene.container("n1").await;
        assert_eq!(before.version, 1);
        controller.stop().await;
        // All that the node had is given back behind its back, and its status is lost.
        let other = scene.start_with([Controller::Subnet].into(), scene.node_grace());
        scene.ready("pods").await;
        let uid = scene.nodes().get("n1").await.unwrap().uid().unwrap();
        let container = scene.container_ref("n1", &uid);
        until("the subnet is known", async || {
            other.allocator.delete("pods", &container).await.ok()
        })
        .await;
        other.stop().await;
        let lost = Patch::Merge(json!({"status": null}));
        let params = PatchParams::default();
        scene.nncs().patch_status("n1", &params, &lost).await.unwrap();

        let _last = scene.start();
        let after = scene.with_addresses("n1", 8).await;
        let names: BTreeSet<String> = names_of(&before).into_iter().collect();
        assert!(names.is_disjoint(&names_of(&after).into_iter().collect()));
        assert!(after.version > before.version);
    });
}

#[test]
fn controllers_that_are_not_asked_for_do_nothing() {
    play(async |scene: Scene| {
        let _controller =
            scene.start_with([Controller::Subnet, Controller::Node].into(), scene.node_grace());
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.node("n1").await;
        scene.nnc("n1", "is there", |_| true).await;
        settle().await;
        assert!(containers(&scene.nncs().get("n1").await.unwrap()).is_empty());
        assert!(scene.states().get_opt("pods").await.unwrap().is_none());
    });
}

#[test]
fn controllers_can_run_in_processes_of_their_own() {
    play(async |scene: Scene| {
        let _subnets = scene
            .start_with([Controller::Subnet, Controller::SubnetState].into(), scene.node_grace());
        let _nodes = scene.start_with([Controller::Node].into(), scene.node_grace());
        let containers =
            scene.start_with([Controller::Nnc, Controller::Reclaim].into(), scene.node_grace());
        with_one_node(&scene).await;
        containers.stop().await;
        scene.delete(&scene.nodes(), "n1").await;
        scene.node("n2").await;
        let _containers =
            scene.start_with([Controller::Nnc, Controller::Reclaim].into(), scene.node_grace());
        scene.container("n2").await;
        until("what the other had is back", async || {
            (scene.owned("pods").await == 1).then_some(())
        })
        .await;
    });
}
