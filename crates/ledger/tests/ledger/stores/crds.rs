//! The resources that the kubernetes store needs.

use berth_api::AddressBlock;
use kube::api::{ListParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};

/// Returns when they are served.
pub async fn establish(client: Client) {
    let crds = Api::all(client.clone());
    for crd in berth_api::crds::all() {
        crds.create(&PostParams::default(), &crd).await.unwrap();
        let established = conditions::is_crd_established();
        await_condition(crds.clone(), &crd.name_any(), established)
            .await
            .unwrap();
    }
    // Established means that it will be served in a moment.
    let blocks: Api<AddressBlock> = Api::all(client);
    while blocks.list(&ListParams::default()).await.is_err() {
        tokio::task::yield_now().await;
    }
}
