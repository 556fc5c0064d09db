//! Which versions of Cluster API's kinds a cluster has.

use std::time::Duration;

use berth_kit::api_error::is_not_found;
use kube::Client;
use kube::core::{ApiResource, GroupVersionKind};
use tracing::{info, warn};

const GROUP: &str = "ipam.cluster.x-k8s.io";
const CLUSTER_GROUP: &str = "cluster.x-k8s.io";
/// Newest first.
const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];
const INTERVAL: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct Served {
    pub claims: ApiResource,
    pub addresses: ApiResource,
    /// If Cluster API's core is not installed, there are no Clusters, and none can pause anything.
    pub clusters: Option<ApiResource>,
    /// Whether it is v1beta2: conditions have another form in the older version.
    pub is_v1beta2: bool,
}

impl Served {
    /// Waits until the cluster serves claims.
    pub async fn find(client: &Client) -> Self {
        loop {
            match Self::discover(client).await {
                Ok(Some(served)) => {
                    info!(version = served.claims.version, "the cluster serves IPAddressClaims");
                    return served;
                }
                Ok(None) => {}
                Err(error) => {
                    warn!(
                        %error,
                        "cannot find out whether the cluster serves IPAddressClaims; retrying"
                    )
                }
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn discover(client: &Client) -> Result<Option<Self>, kube::Error> {
        let Some(version) = version_of(client, GROUP, "ipaddressclaims").await? else {
            return Ok(None);
        };
        let clusters = version_of(client, CLUSTER_GROUP, "clusters").await?;
        Ok(Some(Self {
            claims: resource(GROUP, version, "IPAddressClaim", "ipaddressclaims"),
            addresses: resource(GROUP, version, "IPAddress", "ipaddresses"),
            clusters: clusters
                .map(|version| resource(CLUSTER_GROUP, version, "Cluster", "clusters")),
            is_v1beta2: version == "v1beta2",
        }))
    }
}

async fn version_of(
    client: &Client,
    group: &str,
    plural: &str,
) -> Result<Option<&'static str>, kube::Error> {
    for version in VERSIONS {
        match client.list_api_group_resources(&format!("{group}/{version}")).await {
            Ok(list) if list.resources.iter().any(|resource| resource.name == plural) => {
                return Ok(Some(version));
            }
            Ok(_) => {}
            Err(error) if is_not_found(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}
