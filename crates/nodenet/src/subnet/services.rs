//! Follows the cluster's ServiceCIDRs.

use std::time::Duration;

use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::Api;
use kube::api::ListParams;

use super::index::Subnets;
use super::service_cidrs::ranges;

/// They are made with the cluster and change hardly ever; where they can't be read, nothing is
/// said.
const INTERVAL: Duration = Duration::from_secs(60);

/// For the lifetime of the controllers.
pub async fn follow_services(subnets: Subnets) {
    let api: Api<ServiceCIDR> = Api::all(subnets.context.client.clone());
    loop {
        if let Ok(found) = api.list(&ListParams::default()).await {
            let ranges = found.items.iter().flat_map(ranges).collect();
            let mut index = subnets.index();
            if index.set_services(ranges) {
                index.objects.keys().for_each(|name| subnets.look_at(name));
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
