//! What `clusterctl move` does to a claim and its IPAddress: it creates them in the target as they
//! are in the source, with the UIDs that their owners have in the target. Then it removes the
//! claim's finalizers in the source, and deletes the claim there.

use berth_e2e::Scene;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, ResourceExt};
use serde_json::json;

const GROUP: &str = "ipam.cluster.x-k8s.io";

pub fn api(
    scene: &Scene,
    group: &str,
    version: &str,
    kind: &str,
    plural: &str,
) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, plural);
    Api::namespaced_with(scene.client.clone(), "default", &resource)
}

pub fn claims_in(scene: &Scene, version: &str) -> Api<DynamicObject> {
    api(scene, GROUP, version, "IPAddressClaim", "ipaddressclaims")
}

pub fn addresses(scene: &Scene) -> Api<DynamicObject> {
    api(scene, GROUP, "v1beta2", "IPAddress", "ipaddresses")
}

/// Owners come first. The claim comes with its status.
pub async fn create_in(source: &Scene, target: &Scene, name: &str) {
    let claim = claims_in(source, "v1beta2").get(name).await.unwrap();
    let created = create(&claims_in(target, "v1beta2"), claim.clone()).await;
    let status = json!({"status": claim.data["status"]});
    claims_in(target, "v1beta2")
        .patch_status(name, &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    let mut address = addresses(source).get(name).await.unwrap();
    let subnets = Api::<berth_api::Subnet>::all(target.client.clone());
    for owner in address.owner_references_mut() {
        let uid = match owner.kind.as_str() {
            "Subnet" => subnets.get(&owner.name).await.unwrap().uid(),
            _ => created.uid(),
        };
        owner.uid = uid.unwrap();
    }
    create(&addresses(target), address).await;
}

async fn create(api: &Api<DynamicObject>, mut object: DynamicObject) -> DynamicObject {
    object.metadata.resource_version = None;
    object.metadata.uid = None;
    api.create(&PostParams::default(), &object).await.unwrap()
}

/// Deletes the claim alone. One owner of an IPAddress is a pool, which is in no namespace:
/// clusterctl leaves the IPAddress to its owners.
pub async fn delete_in_source(source: &Scene, name: &str) {
    let api = claims_in(source, "v1beta2");
    let patch = json!({"metadata": {"finalizers": null}});
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    api.delete(name, &DeleteParams::background()).await.unwrap();
}
