//! Follows the cluster's ServiceCIDRs.

use std::time::Duration;

use k8s_openapi::api::networking::v1::ServiceCIDR;
use kube::Api;
use kube::api::ListParams;

use super::index::Subnets;
use super::service_cidrs::ranges;

/// ServiceCIDRs are created with the cluster and hardly ever change. If they can't be read, nothing
/// is reported.
const INTERVAL: Duration = Duration::from_secs(60);

/// Runs for the lifetime of the controllers.
pub async fn follow_services(subnets: Subnets) {
    let api: Api<ServiceCIDR> = Api::all(subnets.context.client.clone());
    loop {
        if let Ok(found) = api.list(&ListParams::default()).await {
            let ranges = found.items.iter().flat_map(ranges).collect();
            let mut index = subnets.index();
            if index.set_services(ranges) {
                index.objects.keys().for_each(|name| subnets.enqueue(name));
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}
