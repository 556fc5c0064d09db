//! Leases or records podCIDRs, and writes them to the Node.

use berth_addr::Prefix;
use berth_api::NodeNetworkConfigStatus;
use berth_kit::api_error::{is_conflict, is_not_found};
use berth_ledger::{Claim, Ledger};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::decide::{placed, with_overlay};
use super::record::named;
use crate::allocator::{AllocatorError, ContainerRef};
use crate::controllers::{Failure, Need, Nodes, View};
use crate::node;

/// Under which podCIDRs are written to Nodes.
const FIELD_MANAGER: &str = "berth-node-ipam";

impl Nodes {
    /// The status with the container for the node's podCIDRs, if it has any.
    pub(crate) async fn with_pod_cidr(
        &self,
        name: &str,
        view: &View,
        node: &node::Facts,
        now: NodeNetworkConfigStatus,
    ) -> Result<NodeNetworkConfigStatus, Failure> {
        let (Some(ledger), Some(subnet)) = (&self.context.ledger, &view.node_cidrs) else {
            return Ok(now);
        };
        let container = self.context.container(name, &node.uid);
        if node.pod_cidrs.is_empty() {
            // Once they are written the watch tells, and they are recorded like any others.
            self.give_cidrs(name, subnet, ledger, &container, node).await?;
            return Ok(now);
        }
        self.turnstile.leave(subnet, name);
        let placed = placed(node, &self.serving_cidrs());
        for stray in placed.iter().filter(|placed| placed.subnet.is_none()) {
            let note = format!(
                "podCIDR {} is in no Subnet with use: node-cidrs, so nothing keeps others from \
                 it: append a CIDR that holds it to one",
                stray.cidr
            );
            self.complain_of_cidr(&container, note);
        }
        match self.record(ledger, &container, node).await? {
            true => Ok(with_overlay(&now, container.id(), &placed, node)),
            false => Ok(now),
        }
    }

    async fn give_cidrs(
        &self,
        name: &str,
        subnet: &str,
        ledger: &Ledger,
        container: &ContainerRef,
        node: &node::Facts,
    ) -> Result<(), Failure> {
        let owner = container.node_cidr().map_err(AllocatorError::from)?;
        self.record_all(ledger).await?;
        self.take_over_cidr(name, subnet, ledger, container, node).await?;
        let mut units = Vec::new();
        if self.turnstile.may_ask(subnet, name, Need::Start) {
            let lease = vec![named(container, "node-cidr")];
            let grant = ledger.lease(subnet, &owner, lease, None).await?;
            units.extend(grant.leases.into_iter().flat_map(|lease| lease.units));
        }
        if units.is_empty() {
            if self.turnstile.join(subnet, name, Need::Start).is_none() {
                let note = format!(
                    "subnet {subnet} has no podCIDR left for this node: it gets one as soon as \
                     another node gives one back, or at once when a CIDR \
                     is appended to spec.cidrs of the Subnet"
                );
                self.context.warn(
                    &node::reference(name, &node.uid),
                    "SubnetFull",
                    "AllocateCIDR",
                    note,
                );
            }
            return Ok(());
        }
        self.turnstile.leave(subnet, name);
        let units: Vec<String> = units.iter().map(Prefix::to_string).collect();
        // Of this very node, and only where there is none: the API server refuses to change those
        // that are set.
        let patch = json!({
            "metadata": {"uid": node.uid},
            "spec": {"podCIDR": units.first(), "podCIDRs": units},
        });
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        match self.context.nodes().patch(name, &params, &Patch::Merge(patch)).await {
            // It is another node, or somebody else has set them: the watch will tell.
            Err(error) if is_conflict(&error) || is_not_found(&error) || is_refused(&error) => {
                let object = format!("Node {name}");
                Err(Failure::Contended { object })
            }
            patched => Ok(patched.map(drop)?),
        }
    }
}

impl Nodes {
    /// A Node that was registered again on its machine keeps its podCIDR: pods have addresses of
    /// it.
    async fn take_over_cidr(
        &self,
        name: &str,
        subnet: &str,
        ledger: &Ledger,
        container: &ContainerRef,
        node: &node::Facts,
    ) -> Result<(), Failure> {
        let Some(before) = self.index().predecessor(name, node) else {
            return Ok(());
        };
        let before = self
            .context
            .container(name, &before)
            .node_cidr()
            .map_err(AllocatorError::from)?;
        let owner = container.node_cidr().map_err(AllocatorError::from)?;
        let held = ledger.held(subnet, &before).await?;
        let claims = held.iter().flat_map(|lease| &lease.units).map(|unit| Claim {
            unit: *unit,
            owner: owner.clone(),
            lease: named(container, "node-cidr"),
            from: Some(before.clone()),
        });
        ledger.restore(subnet, claims.collect()).await?;
        Ok(())
    }
}

fn is_refused(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 422)
}
