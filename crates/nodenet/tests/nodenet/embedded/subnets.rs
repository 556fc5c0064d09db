//! What Subnets say of themselves, and what becomes of them.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::Subnet;
use berth_nodenet::controllers::Controller;
use berth_testkit::until;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;

use super::play;
use super::scene::{Scene, condition, containers, names_of, settle};

fn counts(subnet: &Subnet) -> [u128; 4] {
    let status = subnet.status.clone().unwrap_or_default();
    [status.capacity, status.reserved, status.cooling_down, status.free]
        .map(|count| count.unwrap_or_default().0)
}

#[test]
fn a_subnet_says_how_full_it_is_also_when_rests_end() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        let spec = json!({
            "cidrs": ["10.64.0.0/28"], "gateways": ["10.64.0.1"], "dns": ["10.64.0.2"],
            "reuseDelay": "30s",
        });
        scene.subnet("pods", spec).await;
        let subnet = scene.ready("pods").await;
        assert_eq!(counts(&subnet), [12, 0, 0, 12]);
        assert_eq!(subnet.status.unwrap().observed_generation, subnet.metadata.generation);
        scene.node("n1").await;
        scene.container("n1").await;
        scene.ask("n1", 4, &[]).await;
        let held = scene.with_addresses("n1", 4).await;
        scene
            .subnet_once("pods", "has five reserved", |subnet| counts(subnet) == [12, 5, 0, 7])
            .await;
        scene.ask("n1", 1, &names_of(&held)[..3]).await;
        scene
            .subnet_once("pods", "has three cooling down", |subnet| {
                counts(subnet) == [12, 2, 3, 7]
            })
            .await;
        scene
            .subnet_once("pods", "has none cooling down", |subnet| {
                counts(subnet) == [12, 2, 0, 10]
            })
            .await;
    });
}

#[test]
fn the_status_is_written_at_most_once_a_second() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.ready("pods").await;
        settle().await;
        let mut versions = BTreeSet::new();
        let start = Instant::now();
        for n in 0..100 {
            scene.node(&format!("n{n}")).await;
            tokio::time::sleep(Duration::from_millis(40)).await;
            versions.insert(scene.subnets().get("pods").await.unwrap().resource_version());
        }
        let seconds = usize::try_from(start.elapsed().as_secs()).unwrap();
        assert!(
            versions.len() <= seconds + 2,
            "{} writes in {seconds} s",
            versions.len()
        );
        scene
            .subnet_once("pods", "counts all of them", |subnet| counts(subnet)[1] == 100)
            .await;
        settle().await;
        let before = scene.subnets().get("pods").await.unwrap().resource_version();
        settle().await;
        assert_eq!(scene.subnets().get("pods").await.unwrap().resource_version(), before);
    });
}

#[test]
fn a_full_subnet_is_exhausted_and_says_what_to_do() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene
            .subnet(
                "pods",
                json!({"cidrs": ["10.64.0.0/29"], "reuseDelay": "1s", "scaler": {"batchSize": 1}}),
            )
            .await;
        scene.node("n1").await;
        scene.container("n1").await;
        scene.ask("n1", 5, &[]).await;
        let held = scene.with_addresses("n1", 5).await;
        let is = |status: &'static str| {
            move |subnet: &Subnet| condition(subnet, "Exhausted").0 == status
        };
        let subnet = scene.subnet_once("pods", "is exhausted", is("True")).await;
        let message = condition(&subnet, "Exhausted").2;
        assert!(
            message.contains("fits into 95 %") && message.contains("append a CIDR to spec.cidrs"),
            "{message}"
        );
        assert_eq!(condition(&subnet, "Ready").0, "True");
        scene.ask("n1", 0, &names_of(&held)).await;
        scene.subnet_once("pods", "has enough", is("False")).await;
    });
}

#[test]
fn an_overlapping_subnet_is_refused_and_the_older_one_is_kept() {
    play(async |scene: Scene| {
        let first = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.ready("pods").await;
        // Its name comes first, and it takes every node.
        scene
            .subnet("a", json!({"cidrs": ["10.65.0.0/24", "10.64.0.128/25"]}))
            .await;
        let refused = |subnet: &Subnet| condition(subnet, "Overlapping").0 == "True";
        let subnet = scene.subnet_once("a", "is refused", refused).await;
        let (status, reason, message) = condition(&subnet, "Ready");
        assert_eq!((status.as_str(), reason.as_str()), ("False", "Overlapping"));
        assert!(
            message.contains("spec.cidrs") && message.contains("pods: delete one of the two"),
            "{message}"
        );
        scene.node("n1").await;
        assert_eq!(scene.container("n1").await.subnet_name, "pods");

        // It is refused again when all of it starts over, although it would come first.
        first.stop().await;
        let _second = scene.start();
        scene.node("n2").await;
        assert_eq!(scene.container("n2").await.subnet_name, "pods");
        assert!(refused(&scene.subnets().get("a").await.unwrap()));

        // When the other is gone, it is good.
        scene.delete(&scene.nodes(), "n1").await;
        scene.delete(&scene.nodes(), "n2").await;
        scene.delete(&scene.subnets(), "pods").await;
        let subnet = scene.ready("a").await;
        assert_eq!(condition(&subnet, "Overlapping").0, "False");
    });
}

#[test]
fn a_subnet_extended_into_another_keeps_its_old_cidrs() {
    play(async |scene: Scene| {
        let first = scene.start();
        scene.subnet("a", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.ready("a").await;
        let zoned =
            json!({"cidrs": ["10.65.0.0/24"], "nodeSelector": {"matchLabels": {"zone": "east"}}});
        scene.subnet("b", zoned).await;
        scene.ready("b").await;
        scene.node("n1").await;
        scene.container("n1").await;
        let both = json!({"spec": {"cidrs": ["10.64.0.0/24", "10.65.0.0/25"]}});
        scene.patch(&scene.subnets(), "a", both).await;
        let refused = |subnet: &Subnet| condition(subnet, "Overlapping").0 == "True";
        let subnet = scene.subnet_once("a", "is refused", refused).await;
        assert!(condition(&subnet, "Ready").2.contains("goes on as it was"));
        scene.ask("n1", 2, &[]).await;
        scene.with_addresses("n1", 2).await;

        first.stop().await;
        let _second = scene.start();
        settle().await;
        assert_eq!(condition(&scene.subnets().get("b").await.unwrap(), "Ready").0, "True");
        assert!(refused(&scene.subnets().get("a").await.unwrap()));
        scene.ask("n1", 4, &[]).await;
        let container = scene.with_addresses("n1", 4).await;
        assert!(
            container
                .ip_assignments
                .iter()
                .all(|assignment| assignment.ip.starts_with("10.64."))
        );
    });
}

#[test]
fn one_that_is_deleted_stays_until_nobody_owns_anything_in_it() {
    play(async |scene: Scene| {
        let first = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.node("n1").await;
        scene.container("n1").await;
        scene.delete(&scene.subnets(), "pods").await;
        let releasing = |subnet: &Subnet| condition(subnet, "Ready").1 == "Deleting";
        let subnet = scene.subnet_once("pods", "says why it stays", releasing).await;
        assert!(condition(&subnet, "Ready").2.contains("own addresses in it"));
        scene.event("Subnet", "pods", "SubnetInUse").await;
        // Who has a container keeps it and is served; a new node gets none.
        scene.ask("n1", 2, &[]).await;
        scene.with_addresses("n1", 2).await;
        scene.node("n2").await;
        settle().await;
        assert!(scene.nncs().get_opt("n2").await.unwrap().is_none());
        // Another one can't have the same addresses, whoever runs.
        first.stop().await;
        let _second = scene.start();
        scene.subnet("again", json!({"cidrs": ["10.64.0.0/24"]})).await;
        let refused = |subnet: &Subnet| condition(subnet, "Overlapping").0 == "True";
        scene.subnet_once("again", "is refused", refused).await;

        scene.delete(&scene.nodes(), "n1").await;
        until("the subnet is gone", async || {
            scene.subnets().get_opt("pods").await.unwrap().is_none().then_some(())
        })
        .await;
        scene.ready("again").await;
        assert_eq!(scene.container("n2").await.subnet_name, "again");
    });
}

/// Older than any other, and of no use to nodes.
async fn older(scene: &Scene) {
    let selector = json!({"matchLabels": {"zone": "nowhere"}});
    scene
        .subnet("older", json!({"cidrs": ["10.5.0.0/16"], "nodeSelector": selector}))
        .await;
    scene.ready("older").await;
    // Creation times are in seconds.
    settle().await;
}

async fn append(scene: &Scene, name: &str, cidrs: [&str; 2]) -> Subnet {
    scene
        .patch(&scene.subnets(), name, json!({"spec": {"cidrs": cidrs}}))
        .await;
    let refused = |subnet: &Subnet| condition(subnet, "Overlapping").0 == "True";
    scene.subnet_once(name, "is refused", refused).await
}

#[test]
fn a_deleting_subnet_keeps_its_addresses_while_in_use() {
    play(async |scene: Scene| {
        let first = scene.start();
        older(&scene).await;
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.node("n1").await;
        scene.container("n1").await;
        scene.delete(&scene.subnets(), "pods").await;
        let releasing = |subnet: &Subnet| condition(subnet, "Ready").1 == "Deleting";
        scene.subnet_once("pods", "says why it stays", releasing).await;
        let refused = append(&scene, "older", ["10.5.0.0/16", "10.64.0.0/24"]).await;
        assert_eq!(refused.status.unwrap().cidrs, ["10.5.0.0/16"]);

        first.stop().await;
        let second = scene.start();
        settle().await;
        assert_eq!(second.allocator.subnets().await.unwrap(), ["older", "pods"]);
        assert!(releasing(&scene.subnets().get("pods").await.unwrap()));
        let older = scene.subnets().get("older").await.unwrap();
        assert_eq!(condition(&older, "Overlapping").0, "True");
        // When nobody has anything in it any more, the other may have it.
        scene.delete(&scene.nodes(), "n1").await;
        let older = scene.ready("older").await;
        assert_eq!(older.status.unwrap().cidrs, ["10.5.0.0/16", "10.64.0.0/24"]);
    });
}

#[test]
fn two_refused_extensions_take_no_cidr_from_each_other() {
    play(async |scene: Scene| {
        let first = scene.start();
        older(&scene).await;
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.node("n1").await;
        scene.container("n1").await;
        append(&scene, "older", ["10.5.0.0/16", "10.64.0.0/24"]).await;
        append(&scene, "pods", ["10.64.0.0/24", "10.5.0.0/24"]).await;
        first.stop().await;
        let _second = scene.start();
        settle().await;
        for name in ["older", "pods"] {
            let subnet = scene.subnets().get(name).await.unwrap();
            assert_eq!(condition(&subnet, "Overlapping").0, "True", "{name}");
        }
        scene.ask("n1", 2, &[]).await;
        scene.with_addresses("n1", 2).await;
    });
}

#[test]
fn cidrs_in_use_are_kept_when_the_subnet_status_is_lost() {
    play(async |scene: Scene| {
        let first = scene.start();
        older(&scene).await;
        scene
            .subnet("pods", json!({"cidrs": ["10.64.0.0/30", "10.65.0.0/24"]}))
            .await;
        scene.node("n1").await;
        scene.container("n1").await;
        scene.ask("n1", 4, &[]).await;
        scene.with_addresses("n1", 4).await;
        first.stop().await;
        let lost = Patch::Merge(json!({"status": null}));
        let params = PatchParams::default();
        scene.subnets().patch_status("pods", &params, &lost).await.unwrap();
        let both = json!({"spec": {"cidrs": ["10.5.0.0/16", "10.65.0.0/24"]}});
        scene.patch(&scene.subnets(), "older", both).await;
        let _second = scene.start();
        let refused = |subnet: &Subnet| condition(subnet, "Overlapping").0 == "True";
        scene.subnet_once("older", "is refused", refused).await;
        scene.ready("pods").await;
        scene.ask("n1", 6, &[]).await;
        scene.with_addresses("n1", 6).await;
    });
}

#[test]
fn one_that_is_torn_away_leaves_the_nodes_what_they_have() {
    play(async |scene: Scene| {
        let controller = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.node("n1").await;
        scene.container("n1").await;
        scene.ask("n1", 2, &[]).await;
        let before = scene.with_addresses("n1", 2).await;
        scene.delete(&scene.subnets(), "pods").await;
        scene
            .patch(&scene.subnets(), "pods", json!({"metadata": {"finalizers": null}}))
            .await;
        until("the subnet is gone", async || {
            scene.subnets().get_opt("pods").await.unwrap().is_none().then_some(())
        })
        .await;
        settle().await;
        assert_eq!(controller.allocator.subnets().await.unwrap(), ["pods"]);
        let nnc = scene.nncs().get("n1").await.unwrap();
        assert_eq!(containers(&nnc)[0].ip_assignments, before.ip_assignments);
        scene.subnet("again", json!({"cidrs": ["10.64.0.0/25"]})).await;
        let refused = |subnet: &Subnet| condition(subnet, "Overlapping").0 == "True";
        scene.subnet_once("again", "is refused", refused).await;
    });
}

#[test]
fn subnets_for_other_uses_are_kept_too_and_give_nodes_nothing() {
    play(async |scene: Scene| {
        let _controller = scene.start_with(
            [Controller::Subnet, Controller::Node, Controller::Nnc].into(),
            scene.node_grace(),
        );
        scene
            .subnet("m", json!({"use": "machines", "cidrs": ["10.64.0.0/24"]}))
            .await;
        scene.ready("m").await;
        scene.node("n1").await;
        settle().await;
        assert!(scene.nncs().get_opt("n1").await.unwrap().is_none());
    });
}
