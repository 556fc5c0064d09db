//! Our kinds and roles in a cluster, and the first Subnet.

use anyhow::Result;
use berth_api::Subnet;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::roles;
use crate::scene::Scene;
use crate::wait::{Seen, wait_for};

/// Creates the definitions and the roles, and a Subnet `pods` with that spec as soon as its kind is
/// served.
pub async fn install(scene: &Scene, spec: &Value) -> Result<()> {
    install_subnet(scene, "pods", spec).await
}

/// The same with a Subnet of another name.
pub async fn install_subnet(scene: &Scene, subnet: &str, spec: &Value) -> Result<()> {
    let crds = Api::all(scene.client.clone());
    for crd in berth_api::crds::all() {
        crds.create(&PostParams::default(), &crd).await?;
    }
    roles::apply(scene)?;
    let subnets = Api::<Subnet>::all(scene.client.clone());
    let object = json!({
        "apiVersion": "berth.dev/v1alpha1",
        "kind": "Subnet",
        "metadata": {"name": subnet},
        "spec": spec,
    });
    let params = PatchParams::apply("test");
    wait_for(scene, "the Subnet is created", async || {
        match subnets.patch(subnet, &params, &Patch::Apply(&object)).await {
            Ok(_) => Ok(Seen::There),
            // Right after its definition was created, the kind is not served yet.
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(Seen::NotYet(status.message)),
            Err(error) => Err(error.into()),
        }
    })
    .await
}
