//! An agent that is not ours: as Azure's CNS reads and writes these objects, with nothing changed.

use berth_api::{NodeNetworkConfig, names};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::play;
use super::scene::{Scene, addresses, containers, names_of, settle};

/// Its only write: server-side apply, by force, always with a status that looks empty.
async fn apply(
    scene: &Scene,
    node: &str,
    count: i64,
    not_in_use: Option<&[String]>,
) -> NodeNetworkConfig {
    let mut spec = json!({"requestedIPCount": count});
    if let Some(names) = not_in_use {
        spec["ipsNotInUse"] = json!(names);
    }
    let object = json!({
        "apiVersion": "acn.azure.com/v1alpha",
        "kind": "NodeNetworkConfig",
        "metadata": {"name": node, "namespace": names::NAMESPACE},
        "spec": spec,
        "status": {"assignedIPCount": 0, "scaler": {}},
    });
    let params = PatchParams::apply(names::field_manager::AZURE_CNS).force();
    scene.nncs().patch(node, &params, &Patch::Apply(&object)).await.unwrap()
}

#[test]
fn an_agent_using_forced_server_side_apply_keeps_its_fields() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        scene.node("n1").await;
        scene.container("n1").await;
        apply(&scene, "n1", 16, None).await;
        let first = scene.with_addresses("n1", 16).await;

        // It gives four back, and then leaves their names there.
        let back = names_of(&first)[..4].to_vec();
        apply(&scene, "n1", 12, Some(&back)).await;
        scene.with_addresses("n1", 12).await;
        apply(&scene, "n1", 32, Some(&back)).await;
        let third = scene.with_addresses("n1", 32).await;
        assert!(names_of(&third).iter().all(|name| !back.contains(name)));
        settle().await;
        let nnc = scene.nncs().get("n1").await.unwrap();
        assert_eq!((nnc.spec.requested_ip_count, &nnc.spec.ips_not_in_use), (32, &back));
        let ours = [names::field_manager::NODE, names::field_manager::NNC];
        for entry in nnc
            .managed_fields()
            .iter()
            .filter(|entry| ours.contains(&entry.manager.as_deref().unwrap()))
        {
            let fields = serde_json::to_string(&entry.fields_v1).unwrap();
            assert!(!fields.contains("ipsNotInUse"), "{fields}");
        }
        apply(&scene, "n1", 32, None).await;
        settle().await;
        assert!(scene.nncs().get("n1").await.unwrap().spec.ips_not_in_use.is_empty());
        assert_eq!(scene.container("n1").await, third);
    });
}

#[test]
fn names_that_are_no_use_are_ignored() {
    play(async |scene: Scene| {
        let _controller = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        for name in ["n1", "n2"] {
            scene.node(name).await;
            scene.container(name).await;
            apply(&scene, name, 4, None).await;
            scene.with_addresses(name, 4).await;
        }
        // Of another node, of nobody, no name at all.
        let mut names = names_of(&scene.container("n2").await);
        names.extend(["7d444840-9dc0-11d1-b245-5ffdce74fad2", "not a name", ""].map(str::to_owned));
        let before = scene.container("n1").await;
        apply(&scene, "n1", 4, Some(&names)).await;
        settle().await;
        assert_eq!(scene.container("n1").await, before);
        assert_eq!(addresses(&scene.nncs().get("n2").await.unwrap()).len(), 4);
    });
}

#[test]
fn an_nnc_recreated_by_the_agent_is_adopted() {
    play(async |scene: Scene| {
        let first = scene.start();
        scene.subnet("pods", json!({"cidrs": ["10.64.0.0/24"]})).await;
        let node = scene.node("n1").await;
        scene.container("n1").await;
        first.stop().await;
        scene.delete(&scene.nncs(), "n1").await;
        scene
            .patch(&scene.nncs(), "n1", json!({"metadata": {"finalizers": null}}))
            .await;
        let made = apply(&scene, "n1", 16, None).await;
        assert!(made.owner_references().is_empty() && made.finalizers().is_empty());

        let _second = scene.start();
        let container = scene.with_addresses("n1", 16).await;
        assert_eq!(container.version, 1, "it was told of the empty container first");
        let nnc = scene.nncs().get("n1").await.unwrap();
        assert_eq!(nnc.uid(), made.uid());
        assert_eq!(nnc.finalizers(), [names::FINALIZER]);
        assert_eq!(nnc.owner_references()[0].uid, node.metadata.uid.unwrap());
        assert_eq!(nnc.spec, made.spec);
        assert_eq!(containers(&nnc).len(), 1);
    });
}
