//! A podCIDR of its own for every node.

use berth_api::nnc::AssignmentMode;
use berth_api::{NodeNetworkConfig, Subnet};
use berth_nodenet::controllers::Controller;
use berth_testkit::until;
use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::play;
use super::scene::{Running, Scene, condition, containers, settle};

fn start(scene: &Scene) -> Running {
    scene.start_with(Controller::ALL.into(), scene.node_grace())
}

async fn cidrs_of(scene: &Scene, node: &str) -> Vec<String> {
    let what = format!("{node} has podCIDRs");
    let cidrs = async || {
        scene
            .nodes()
            .get(node)
            .await
            .unwrap()
            .spec
            .and_then(|spec| spec.pod_cidrs)
    };
    until(&what, cidrs).await
}

async fn node_with(scene: &Scene, name: &str, cidr: &str) -> Node {
    let spec = json!({"podCIDR": cidr, "podCIDRs": [cidr]});
    scene
        .create(&scene.nodes(), json!({"metadata": {"name": name}, "spec": spec}))
        .await
}

#[test]
fn a_node_has_one_pod_cidr_per_family_until_it_is_deleted() {
    play(async |scene: Scene| {
        let _controller = start(&scene);
        let spec = json!({"use": "node-cidrs", "cidrs": ["10.128.0.0/16", "fd80::/48"]});
        scene.subnet("cidrs", spec).await;
        scene.node("n1").await;
        assert_eq!(cidrs_of(&scene, "n1").await, ["10.128.0.0/24", "fd80::/64"]);
        let node = scene.nodes().get("n1").await.unwrap();
        assert_eq!(node.spec.unwrap().pod_cidr.as_deref(), Some("10.128.0.0/24"));
        let container = scene.container("n1").await;
        assert_eq!(
            (container.container_type.as_str(), container.assignment_mode),
            ("overlay", AssignmentMode::Static)
        );
        assert_eq!(container.primary_ip, "10.128.0.0/24");
        assert_eq!(container.primary_ip_v6.as_deref(), Some("fd80::/64"));
        assert_eq!((container.version, container.subnet_name.as_str()), (0, "cidrs"));
        assert_eq!(container.subnet_address_space, "10.128.0.0/16");
        scene.node("n2").await;
        assert_eq!(cidrs_of(&scene, "n2").await, ["10.128.1.0/24", "fd80:0:0:1::/64"]);

        scene.delete(&scene.nodes(), "n1").await;
        until("it is back", async || (scene.owned("cidrs").await == 2).then_some(())).await;
        scene.delete(&scene.nncs(), "n2").await;
        settle().await;
        assert_eq!(
            scene.owned("cidrs").await,
            2,
            "a node that is there keeps what is written on it"
        );
        scene.container("n2").await;
    });
}

#[test]
fn cidrs_that_others_have_set_are_recorded_as_they_are() {
    play(async |scene: Scene| {
        let _controller = start(&scene);
        scene
            .subnet("cidrs", json!({"use": "node-cidrs", "cidrs": ["10.128.0.0/16"]}))
            .await;
        scene.ready("cidrs").await;
        node_with(&scene, "theirs", "10.128.0.0/24").await;
        assert_eq!(scene.container("theirs").await.primary_ip, "10.128.0.0/24");
        scene.node("ours").await;
        assert_eq!(cidrs_of(&scene, "ours").await, ["10.128.1.0/24"]);
        // One that is taken, and one that is nowhere: said once, and nobody else notices.
        node_with(&scene, "taken", "10.128.1.0/24").await;
        let note = scene.event("Node", "taken", "PodCIDRNotRecorded").await;
        assert!(
            note.contains("10.128.1.0/24") && note.contains("has an owner"),
            "{note}"
        );
        settle().await;
        assert!(containers(&scene.nncs().get("taken").await.unwrap()).is_empty());
        node_with(&scene, "elsewhere", "10.9.9.0/24").await;
        scene.event("Node", "elsewhere", "PodCIDRNotRecorded").await;
        assert_eq!(scene.container("elsewhere").await.subnet_address_space, "10.9.9.0/24");
        assert_eq!(scene.owned("cidrs").await, 2);
    });
}

#[test]
fn existing_pod_cidrs_are_recorded_before_new_ones_are_given() {
    play(async |scene: Scene| {
        // Nothing has recorded them yet, and the node without one comes first.
        scene.node("a-new").await;
        for (name, cidr) in [("n0", "10.128.0.0/24"), ("n1", "10.128.1.0/24")] {
            node_with(&scene, name, cidr).await;
        }
        let elsewhere = json!({"zone": "elsewhere"});
        scene
            .patch(&scene.nodes(), "n1", json!({"metadata": {"labels": elsewhere}}))
            .await;
        let _controller = start(&scene);
        let selector = json!({"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]});
        let spec =
            json!({"use": "node-cidrs", "cidrs": ["10.128.0.0/16"], "nodeSelector": selector});
        scene.subnet("cidrs", spec).await;
        assert_eq!(cidrs_of(&scene, "a-new").await, ["10.128.2.0/24"]);
        settle().await;
        assert_eq!(scene.owned("cidrs").await, 3);
        assert!(
            scene.nncs().get_opt("n1").await.unwrap().is_none(),
            "a node that is not selected gets nothing"
        );

        // One that comes later is recorded, too, and so is one that came while nobody looked.
        node_with(&scene, "n3", "10.128.3.0/24").await;
        scene
            .patch(&scene.nodes(), "n3", json!({"metadata": {"labels": elsewhere}}))
            .await;
        until("it is recorded", async || {
            (scene.owned("cidrs").await == 4).then_some(())
        })
        .await;
        scene.node("b-new").await;
        assert_eq!(cidrs_of(&scene, "b-new").await, ["10.128.4.0/24"]);
    });
}

#[test]
fn cidrs_that_are_no_units_take_all_that_they_touch() {
    play(async |scene: Scene| {
        let _controller = start(&scene);
        scene
            .subnet("cidrs", json!({"use": "node-cidrs", "cidrs": ["10.128.0.0/16"]}))
            .await;
        scene.ready("cidrs").await;
        for (name, cidr) in [("longer", "10.128.0.0/25"), ("shorter", "10.128.2.0/23")] {
            node_with(&scene, name, cidr).await;
            assert_eq!(scene.container(name).await.primary_ip, cidr);
        }
        assert_eq!(scene.owned("cidrs").await, 3);
        for (name, cidr) in [("n1", "10.128.1.0/24"), ("n2", "10.128.4.0/24")] {
            scene.node(name).await;
            assert_eq!(cidrs_of(&scene, name).await, [cidr]);
        }
        // The other half is nobody else's, and the unit is the first one's; when that goes, it is
        // not given away.
        node_with(&scene, "half", "10.128.0.128/25").await;
        assert_eq!(scene.container("half").await.primary_ip, "10.128.0.128/25");
        let note = scene.event("Node", "half", "PodCIDRNotRecorded").await;
        assert!(note.contains("10.128.0.0/24: it has an owner"), "{note}");
        scene.delete(&scene.nodes(), "longer").await;
        until("it is back", async || (scene.owned("cidrs").await == 4).then_some(())).await;
        scene.node("n3").await;
        assert_eq!(cidrs_of(&scene, "n3").await, ["10.128.5.0/24"]);
        assert_eq!(scene.owned("cidrs").await, 6);
    });
}

#[test]
fn a_refused_pod_cidr_subnet_does_not_block_other_subnets() {
    play(async |scene: Scene| {
        let _controller = start(&scene);
        let nowhere = json!({"matchLabels": {"zone": "nowhere"}});
        let machines = json!({"use": "machines", "cidrs": ["10.128.0.0/16"]});
        scene.subnet("machines", machines).await;
        scene.ready("machines").await;
        scene
            .subnet("cidrs", json!({"use": "node-cidrs", "cidrs": ["10.129.0.0/16"]}))
            .await;
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        let spec =
            json!({"use": "node-cidrs", "cidrs": ["10.128.0.0/16"], "nodeSelector": nowhere});
        scene.subnet("a-refused", spec).await;
        for name in ["cidrs", "pods"] {
            scene.ready(name).await;
        }
        let refused = |subnet: &Subnet| condition(subnet, "Overlapping").0 == "True";
        scene.subnet_once("a-refused", "is refused", refused).await;
        node_with(&scene, "n1", "10.128.0.0/24").await;
        let both = |nnc: &NodeNetworkConfig| containers(nnc).len() == 2;
        scene.nnc("n1", "has two containers", both).await;
    });
}

#[test]
fn a_node_without_one_waits_until_there_is_one() {
    play(async |scene: Scene| {
        let _controller = start(&scene);
        scene
            .subnet("cidrs", json!({"use": "node-cidrs", "cidrs": ["10.128.0.0/24"]}))
            .await;
        scene.node("n1").await;
        cidrs_of(&scene, "n1").await;
        scene.node("n2").await;
        let note = scene.event("Node", "n2", "SubnetFull").await;
        assert!(note.contains("subnet cidrs has no podCIDR left"), "{note}");
        scene.delete(&scene.nodes(), "n1").await;
        assert_eq!(cidrs_of(&scene, "n2").await, ["10.128.0.0/24"]);
    });
}

#[test]
fn a_node_can_have_both_kinds_of_container() {
    play(async |scene: Scene| {
        let _controller = start(&scene);
        scene
            .subnet("cidrs", json!({"use": "node-cidrs", "cidrs": ["10.128.0.0/16"]}))
            .await;
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.ready("cidrs").await;
        scene.ready("pods").await;
        scene.node("n1").await;
        let both = |nnc: &NodeNetworkConfig| containers(nnc).len() == 2;
        let nnc = scene.nnc("n1", "has two containers", both).await;
        let types: Vec<String> = containers(&nnc)
            .into_iter()
            .map(|container| container.container_type)
            .collect();
        assert_eq!(types, ["vnet", "overlay"]);
        scene.ask("n1", 2, &[]).await;
        let served = |nnc: &NodeNetworkConfig| containers(nnc)[0].ip_assignments.len() == 2;
        let nnc = scene.nnc("n1", "has two addresses", served).await;
        assert_eq!((containers(&nnc)[0].version, containers(&nnc)[1].version), (1, 0));
        scene.delete(&scene.nodes(), "n1").await;
        until("all of it is back", async || {
            (scene.owned("cidrs").await + scene.owned("pods").await == 0).then_some(())
        })
        .await;
    });
}

#[test]
fn it_is_off_by_default() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene
            .subnet("cidrs", json!({"use": "node-cidrs", "cidrs": ["10.128.0.0/16"]}))
            .await;
        scene.ready("cidrs").await;
        scene.node("n1").await;
        settle().await;
        assert!(
            scene
                .nodes()
                .get("n1")
                .await
                .unwrap()
                .spec
                .is_none_or(|spec| spec.pod_cidr.is_none())
        );
        assert!(scene.nncs().get_opt("n1").await.unwrap().is_none());
    });
}
