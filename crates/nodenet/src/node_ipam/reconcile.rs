//! Leases or records podCIDRs, and writes them to the Node.

use berth_addr::Prefix;
use berth_api::NodeNetworkConfigStatus;
use berth_kit::api_error::{is_conflict, is_not_found};
use berth_ledger::Claim;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::decide::{placed, with_overlay};
use super::record::{emit_unrecorded, record, record_all, serving_cidrs};
use crate::allocator::ContainerRef;
use crate::context::Context;
use crate::error::ReconcileError;
use crate::facts::{NodeFacts, reference};
use crate::index::View;
use crate::wait_list::Need;

/// The field manager that writes podCIDRs to Nodes.
const FIELD_MANAGER: &str = "berth-node-ipam";

/// The status with the container for the node's podCIDRs, if it has any.
pub async fn with_pod_cidrs(
    context: &Context,
    name: &str,
    view: &View,
    node: &NodeFacts,
    now: NodeNetworkConfigStatus,
) -> Result<NodeNetworkConfigStatus, ReconcileError> {
    let Some(subnet) = &view.node_cidrs else {
        return Ok(now);
    };
    let nc = context.nc(name, &node.uid);
    if node.pod_cidrs.is_empty() {
        // Once they are written, the watch reports them, and they are recorded like any others.
        give_cidrs(context, subnet, &nc, node).await?;
        return Ok(now);
    }
    context.wait_list.leave(subnet, name);
    let placed = placed(node, &serving_cidrs(context));
    for stray in placed.iter().filter(|placed| placed.subnet.is_none()) {
        let note = format!(
            "podCIDR {} is in no Subnet with use: node-cidrs, so nothing keeps others from it: \
             append a CIDR that holds it to one",
            stray.cidr
        );
        emit_unrecorded(context, &nc, note);
    }
    match record(context, &nc, node).await? {
        true => Ok(with_overlay(&now, nc.id(), &placed, node)),
        false => Ok(now),
    }
}

async fn give_cidrs(
    context: &Context,
    subnet: &str,
    nc: &ContainerRef,
    node: &NodeFacts,
) -> Result<(), ReconcileError> {
    let name = &nc.node;
    record_all(context).await?;
    take_over(context, subnet, nc, node).await?;
    let mut units = Vec::new();
    if context.wait_list.is_next(subnet, name, Need::Start) {
        units = context.allocator.lease_pod_cidrs(subnet, nc).await?;
    }
    if units.is_empty() {
        if context.wait_list.join(subnet, name, Need::Start).is_none() {
            let note = format!(
                "subnet {subnet} has no podCIDR left for this node: it gets one as soon as another \
                 node gives one back, or at once when a CIDR is appended to spec.cidrs of the \
                 Subnet"
            );
            context.background.warn(
                &reference(name, &node.uid),
                "SubnetFull",
                "AllocateCIDR",
                note,
            );
        }
        return Ok(());
    }
    context.wait_list.leave(subnet, name);
    let units: Vec<String> = units.iter().map(Prefix::to_string).collect();
    // Applies to this very node only, and only if it has none: the API server refuses to change
    // those that are set.
    let patch = json!({
        "metadata": {"uid": node.uid},
        "spec": {"podCIDR": units.first(), "podCIDRs": units},
    });
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    match context.nodes().patch(name, &params, &Patch::Merge(patch)).await {
        // The node is another one by now, or somebody else has set them: the watch will report it.
        Err(error) if is_conflict(&error) || is_not_found(&error) || is_invalid(&error) => {
            let object = format!("Node {name}");
            Err(ReconcileError::Contended { object })
        }
        patched => Ok(patched.map(drop)?),
    }
}

/// A Node that was registered again on its machine keeps its podCIDR: pods have addresses of it.
async fn take_over(
    context: &Context,
    subnet: &str,
    nc: &ContainerRef,
    node: &NodeFacts,
) -> Result<(), ReconcileError> {
    let Some(before) = context.index().predecessor(&nc.node, node) else {
        return Ok(());
    };
    let before = context.nc(&nc.node, &before).node_cidr()?;
    let owner = nc.node_cidr()?;
    let held = context.allocator.held(subnet, &before).await?;
    let claims = held.iter().flat_map(|lease| &lease.units).map(|unit| Claim {
        unit: *unit,
        owner: owner.clone(),
        lease: nc.pod_cidrs_lease(),
        from: Some(before.clone()),
    });
    context.allocator.restore(subnet, claims.collect()).await?;
    Ok(())
}

fn is_invalid(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 422)
}
