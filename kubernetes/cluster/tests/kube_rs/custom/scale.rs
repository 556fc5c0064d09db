//! A definition says where replicas are, and `scale` reads and writes them there.

use berth_testkit::until;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams,
};
use kube::core::GroupVersionKind;
use kube::{Api, Client, Result};
use serde_json::{Value, json};

use crate::space::{Space, in_space, object, unique};

fn definition(group: &str) -> CustomResourceDefinition {
    let half = |number: &str, text: &str| {
        let properties = json!({number: {"type": "integer"}, text: {"type": "string"}});
        json!({"type": "object", "properties": properties})
    };
    let properties = json!({"spec": half("size", "note"), "status": half("ready", "selector")});
    let paths = json!({
        "specReplicasPath": ".spec.size",
        "statusReplicasPath": ".status.ready",
        "labelSelectorPath": ".status.selector",
    });
    object(json!({
        "metadata": {"name": format!("sets.{group}")},
        "spec": {
            "group": group,
            "names": {"kind": "Set", "plural": "sets"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
                "subresources": {"status": {}, "scale": paths},
            }],
        },
    }))
}

async fn sets(space: &Space, group: &str) -> Api<DynamicObject> {
    let definitions: Api<CustomResourceDefinition> = Api::all(space.client.clone());
    definitions
        .create(&PostParams::default(), &definition(group))
        .await
        .unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", "Set"));
    let sets: Api<DynamicObject> =
        Api::namespaced_with(space.client.clone(), &space.name, &resource);
    until("sets are served", async || sets.list(&ListParams::default()).await.ok()).await;
    let mut set = DynamicObject::new("a", &resource);
    set.data = json!({"spec": {"size": 3, "note": "kept"}});
    until("a set is made", async || {
        sets.create(&PostParams::default(), &set).await.ok()
    })
    .await;
    sets
}

async fn forget(client: &Client, group: &str) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let deleted = definitions
        .delete(&format!("sets.{group}"), &DeleteParams::default())
        .await;
    deleted.unwrap();
}

async fn exercise(sets: &Api<DynamicObject>) -> Result<()> {
    let params = PatchParams::default();
    let status = Patch::Merge(json!({"status": {"ready": 2, "selector": "app=web"}}));
    sets.patch_status("a", &params, &status).await?;
    let scale = sets.get_scale("a").await?;
    assert_eq!(scale.spec.unwrap().replicas, Some(3));
    let status = scale.status.unwrap();
    assert_eq!((status.replicas, status.selector.as_deref()), (2, Some("app=web")));

    let patch = Patch::Merge(json!({"spec": {"replicas": 5}}));
    let scale = sets.patch_scale("a", &params, &patch).await?;
    assert_eq!(scale.spec.unwrap().replicas, Some(5));
    let set: Value = sets.get("a").await?.data;
    assert_eq!(set["spec"], json!({"size": 5, "note": "kept"}));
    assert_eq!(set["status"], json!({"ready": 2, "selector": "app=web"}));
    Ok(())
}

#[test]
fn the_scale_of_a_custom_resource_is_where_its_definition_says() {
    in_space(async |space| {
        let group = format!("{}.berth.test", unique("scale"));
        let sets = sets(&space, &group).await;
        let outcome = exercise(&sets).await;
        forget(&space.client, &group).await;
        outcome.unwrap();
    });
}
