//! A Subnet for each network that the process was given.

use std::time::Duration;

use berth_api::Subnet;
use berth_api::machines::flag::{NETWORK_LABEL, NetworkFlag};
use berth_kit::api_error::is_conflict;
use berth_kit::backoff::Exponential;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Resource, ResourceExt};
use serde_json::json;
use tracing::{error, warn};

use super::{Context, FIELD_MANAGER};
use crate::failure::ReconcileError;

const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(100),
    max: Duration::from_secs(10),
};

impl Context {
    /// Creates the Subnets that are missing. What a person changed in one stays as long as its CIDR
    /// does.
    pub(super) async fn ensure_subnets(&self, networks: &[NetworkFlag]) {
        for (order, network) in networks.iter().enumerate() {
            let mut failures = 0;
            while let Err(error) = self.ensure_subnet(network, order).await {
                warn!(
                    %error,
                    %network,
                    "cannot create or update the Subnet of the network; retrying"
                );
                tokio::time::sleep(BACKOFF.delay(failures)).await;
                failures += 1;
            }
        }
    }

    async fn ensure_subnet(
        &self,
        network: &NetworkFlag,
        order: usize,
    ) -> Result<(), ReconcileError> {
        let api: Api<Subnet> = Api::all(self.client.clone());
        let subnet = network.subnet(order);
        let params = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        match api.create(&params, &subnet).await {
            Ok(_) => return Ok(()),
            Err(error) if is_conflict(&error) => {}
            Err(error) => return Err(error.into()),
        }
        let found = api.get(&network.subnet_name()).await?;
        if found.spec.cidrs != subnet.spec.cidrs || found.spec.usage != subnet.spec.usage {
            let name = found.name_any();
            error!(
                subnet = name,
                %network,
                "the network's Subnet exists with other CIDRs or another use; delete it, or give \
                 another network"
            );
            let note = format!(
                "--network {network}: this Subnet has its name and other CIDRs or another use"
            );
            self.background
                .warn(&found.object_ref(&()), "NetworkDiffers", "Register", note);
            return Ok(());
        }
        let wanted = order.to_string();
        let same = found.labels().get(NETWORK_LABEL) == Some(&wanted)
            && found.spec.gateways == subnet.spec.gateways
            && found.spec.dns == subnet.spec.dns;
        if same {
            return Ok(());
        }
        let patch = json!({
            "metadata": {"labels": {NETWORK_LABEL: wanted}},
            "spec": {"gateways": subnet.spec.gateways, "dns": subnet.spec.dns},
        });
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        api.patch(&network.subnet_name(), &params, &Patch::Merge(patch)).await?;
        Ok(())
    }
}
