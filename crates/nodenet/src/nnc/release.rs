//! A config that is being deleted may go: what the node has is not the config's but the Node's.
//!
//! Of a Node that is there, the next config lists all of it again. Of one that is gone, reclaim
//! takes it back when its time has come.

use berth_api::{NodeNetworkConfig, names};
use berth_kit::api_error::{is_conflict, is_not_found};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::facts::Facts;
use crate::controllers::{Failure, Nodes, Outcome};

impl Nodes {
    pub(crate) async fn let_go(
        &self,
        name: &str,
        config: &NodeNetworkConfig,
    ) -> Result<Outcome, Failure> {
        self.turnstile.leave_all(name);
        if !Facts::of(config).finalizer {
            return Ok(Outcome::Gone);
        }
        let finalizers: Vec<&String> = config
            .finalizers()
            .iter()
            .filter(|finalizer| *finalizer != names::FINALIZER)
            .collect();
        let patch = json!({"metadata": {
            "resourceVersion": config.metadata.resource_version,
            "finalizers": finalizers,
        }});
        let params = PatchParams {
            field_manager: Some(names::field_manager::NNC.to_owned()),
            ..PatchParams::default()
        };
        match self.context.configs().patch(name, &params, &Patch::Merge(patch)).await {
            Err(error) if is_conflict(&error) => Ok(Outcome::Conflict),
            Err(error) if !is_not_found(&error) => Err(error.into()),
            _ => Ok(Outcome::Gone),
        }
    }
}
