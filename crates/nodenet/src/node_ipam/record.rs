//! Records the podCIDRs that Nodes have, whichever controller has set them: those of all Nodes,
//! also of Nodes that no Subnet selects, and before any podCIDR is given.

use std::collections::BTreeSet;
use std::sync::Arc;

use berth_addr::{ClaimError, Prefix};
use berth_api::subnet::Use;
use futures::future::join_all;

use super::decide::{is_elsewhere, touched, unused};
use crate::allocator::ContainerRef;
use crate::context::Context;
use crate::error::ReconcileError;
use crate::facts::{NodeFacts, SubnetFacts, reference};

/// A podCIDR, or a part of it, that is not recorded.
struct Unrecorded {
    why: String,
    /// The node's pods can use the whole podCIDR all the same, as far as this subnet is concerned.
    usable: bool,
    /// It may be free at the next attempt.
    is_transient: bool,
}

/// The subnets that podCIDRs can be recorded in. A refused Subnet gives none, and must not keep
/// nodes from what they get elsewhere.
pub fn serving_cidrs(context: &Context) -> Vec<(String, Arc<SubnetFacts>)> {
    let mut subnets = context.index().subnets_for(Use::NodeCidrs);
    subnets.retain(|(_, facts)| facts.serving);
    subnets
}

/// Records a node that no Subnet gives a podCIDR to: its podCIDR may be in a Subnet nevertheless.
/// The record goes back with its nnc, or by reclaim.
pub async fn record_unselected(
    context: &Context,
    name: &str,
    node: &NodeFacts,
) -> Result<(), ReconcileError> {
    if context.allocator.serves_pod_cidrs() && !node.pod_cidrs.is_empty() {
        record(context, &context.nc(name, &node.uid), node).await?;
    }
    Ok(())
}

/// Records all podCIDRs again: the ledger may have lost some of them.
pub async fn record_again(context: &Context) -> Result<(), ReconcileError> {
    // A service allocates no podCIDRs, so there is nothing to keep others from.
    if !context.allocator.serves_pod_cidrs() {
        return Ok(());
    }
    context.index().mark_all_unrecorded();
    record_all(context).await
}

/// Records all podCIDRs that the watch has reported. Call it before a podCIDR is leased: what
/// another node has looks free until it is recorded, and no Node ever changes its podCIDR.
pub async fn record_all(context: &Context) -> Result<(), ReconcileError> {
    // Other callers wait meanwhile: they must not lease what is about to be recorded.
    let _turn = context.recording.lock().await;
    let nodes = context.index().take_unrecorded();
    let recorded = nodes.iter().map(async |(name, node)| {
        let nc = context.nc(name, &node.uid);
        claim(context, &nc, node).await
    });
    let mut result = Ok(());
    for ((name, _), recorded) in nodes.iter().zip(join_all(recorded).await) {
        let again = match recorded {
            Ok(unrecorded) => unrecorded.iter().any(|unrecorded| unrecorded.is_transient),
            Err(error) => {
                result = Err(error);
                true
            }
        };
        if again {
            context.index().mark_unrecorded(name);
        }
    }
    result
}

/// Returns whether the node may use its podCIDRs. It may not if they are another node's: an event
/// reports that, and nothing else happens until one of the two changes.
pub async fn record(
    context: &Context,
    nc: &ContainerRef,
    node: &NodeFacts,
) -> Result<bool, ReconcileError> {
    let unrecorded = claim(context, nc, node).await?;
    let usable = unrecorded.iter().all(|unrecorded| unrecorded.usable);
    for Unrecorded { why, .. } in unrecorded {
        emit_unrecorded(context, nc, why);
    }
    Ok(usable)
}

pub fn emit_unrecorded(context: &Context, nc: &ContainerRef, note: String) {
    let node = reference(&nc.node, &nc.uid);
    context
        .background
        .warn(&node, "PodCIDRNotRecorded", "AllocateCIDR", note);
}

/// Also gives back what is held for podCIDRs that the node no longer has.
async fn claim(
    context: &Context,
    nc: &ContainerRef,
    node: &NodeFacts,
) -> Result<Vec<Unrecorded>, ReconcileError> {
    let owner = nc.node_cidr()?;
    let cidrs = node.pod_cidrs.iter().filter_map(|cidr| cidr.parse::<Prefix>().ok());
    let cidrs: Vec<Prefix> = cidrs.collect();
    let mut unrecorded = Vec::new();
    for (subnet, facts) in serving_cidrs(context) {
        let held = context.allocator.held(&subnet, &owner).await?;
        let has: BTreeSet<Prefix> = held.iter().flat_map(|lease| lease.units.clone()).collect();
        let mut in_use = BTreeSet::new();
        for cidr in &cidrs {
            let Some(units) = touched(*cidr, &facts) else {
                unrecorded.push(Unrecorded {
                    why: format!(
                        "podCIDR {cidr} is too large a part of subnet {subnet} to be recorded: \
                         delete this Node and let it join without spec.podCIDR"
                    ),
                    usable: false,
                    is_transient: false,
                });
                continue;
            };
            let missing = units.iter().copied().filter(|unit| !has.contains(unit)).collect();
            unrecorded.extend(claim_units(context, &subnet, nc, *cidr, missing).await?);
            in_use.extend(units);
        }
        let unused = unused(&in_use, &held);
        if !unused.is_empty() {
            context.allocator.take_back(&subnet, &owner, unused).await?;
        }
    }
    Ok(unrecorded)
}

/// Claims all units at once if possible, else each one that can be had.
async fn claim_units(
    context: &Context,
    subnet: &str,
    nc: &ContainerRef,
    cidr: Prefix,
    units: Vec<Prefix>,
) -> Result<Vec<Unrecorded>, ReconcileError> {
    let allocator = &context.allocator;
    if units.is_empty() {
        return Ok(Vec::new());
    }
    if units.len() > 1 && allocator.claim_pod_cidr(subnet, nc, cidr, units.clone()).await?.is_ok() {
        return Ok(Vec::new());
    }
    let mut unrecorded = Vec::new();
    for unit in units {
        if let Err(refusal) = allocator.claim_pod_cidr(subnet, nc, cidr, vec![unit]).await? {
            let owned = refusal.error == ClaimError::Owned;
            unrecorded.push(Unrecorded {
                why: format!(
                    "podCIDR {cidr}: {refusal} in subnet {subnet}: delete this Node and let it \
                     join without spec.podCIDR, or change the Subnet"
                ),
                usable: !owned || is_shared(context, subnet, unit, cidr).await?,
                is_transient: owned,
            });
        }
    }
    Ok(unrecorded)
}

/// Whether the unit's owner has another part of it: podCIDRs that are smaller than a unit share it.
async fn is_shared(
    context: &Context,
    subnet: &str,
    unit: Prefix,
    cidr: Prefix,
) -> Result<bool, ReconcileError> {
    let Some(tenure) = context.allocator.owner_of(subnet, unit).await? else {
        return Ok(false);
    };
    let node = context.index().node(tenure.owner.name());
    let node = node.filter(|node| node.uid == tenure.owner.uid());
    Ok(node.is_some_and(|node| is_elsewhere(&node, cidr)))
}
