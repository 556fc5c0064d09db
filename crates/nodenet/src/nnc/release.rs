//! A config that is being deleted: its addresses go back, and then it may go.

use std::collections::BTreeSet;

use berth_api::nnc::OVERLAY;
use berth_api::subnet::Use;
use berth_api::{NodeNetworkConfig, names};
use kube::api::{Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde_json::json;

use super::facts::{Facts, Owner};
use crate::allocator::{AllocatorError, ContainerRef};
use crate::controllers::{Failure, Nodes, Outcome, View, is_conflict, is_gone};

impl Nodes {
    pub(crate) async fn release(
        &self,
        name: &str,
        view: &View,
        config: &NodeNetworkConfig,
    ) -> Result<Outcome, Failure> {
        self.turnstile.leave_all(name);
        if !Facts::of(config).finalizer {
            return Ok(Outcome::Gone);
        }
        // Without an owner it is the node's of that name. If there is none either, what it had is found by reclaim.
        let uid = match Owner::of(config) {
            Owner::Node { uid } => Some(uid),
            Owner::Nobody | Owner::Other => view.node.as_ref().map(|node| node.uid.clone()),
        };
        if let Some(uid) = uid {
            let container = self.context.container(name, &uid);
            for subnet in self.subnets_of(view, config) {
                self.give_back(&subnet, &container, config).await?;
            }
            self.give_back_cidrs(&container).await?;
        }
        // Only now: as long as the finalizer is there, somebody will come and do the above, also when this process ends here.
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
            Err(error) if !is_gone(&error) => Err(error.into()),
            _ => Ok(Outcome::Gone),
        }
    }

    /// Where it may have something: in the subnets that its status names; when that names none, the container may have been made without the
    /// status ever having been written.
    fn subnets_of(&self, view: &View, config: &NodeNetworkConfig) -> BTreeSet<String> {
        let containers = config.status.iter().flat_map(|status| &status.network_containers);
        let for_pods = containers.filter(|container| container.container_type != OVERLAY);
        let mut subnets: BTreeSet<String> = for_pods.map(|container| container.subnet_name.clone()).collect();
        if subnets.is_empty() {
            subnets.extend(self.index().subnets_for(Use::Pods).into_iter().map(|(name, _)| name));
        }
        subnets.extend(view.pods.clone());
        subnets
    }

    async fn give_back(
        &self,
        subnet: &str,
        container: &ContainerRef,
        config: &NodeNetworkConfig,
    ) -> Result<(), Failure> {
        let facts = self.index().subnet(subnet);
        match self.context.allocator.delete(subnet, container).await {
            // It never served, so it has given nothing.
            Err(AllocatorError::NoSubnet { .. }) if facts.as_ref().is_some_and(|facts| !facts.serving) => Ok(()),
            Err(AllocatorError::NoSubnet { .. }) if facts.is_none() => {
                let note = format!(
                    "there is no Subnet {subnet} any more, so what the node has in it can't be given back: it is, when the Subnet is created again"
                );
                self.context
                    .warn(&config.object_ref(&()), "SubnetGone", "Release", note);
                Ok(())
            }
            deleted => Ok(deleted?),
        }
    }
}
