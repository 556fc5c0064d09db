//! One pass over a subnet: collects holdings, restores them, reports conflicts, opens the gate.

use std::collections::BTreeSet;
use std::net::IpAddr;

use berth_addr::Prefix;
use berth_api::NodeNetworkConfig;
use berth_api::subnet::Use;
use berth_ledger::{Claim, Claimed, Kind, Owner};
use kube::ResourceExt;
use kube::api::ListParams;
use tracing::{info, warn};

use crate::context::Context;
use crate::error::ReconcileError;
use crate::facts::{is_of, reference};
use crate::holdings::{Conflict, Holders, Holding, by_unit, of_nnc, of_pod};
use crate::node_ipam::record_again;
use crate::pods::ObservedAddress;

/// NodeNetworkConfigs in one page of a list.
const PAGE: u32 = 250;

/// Returns the generation of the subnet that is claimed now.
pub async fn pass(context: &Context, subnet: &str) -> Result<u64, ReconcileError> {
    let Context {
        allocator, cluster, ..
    } = context;
    loop {
        // This comes first: the next pass claims what is lost after it.
        let generation = allocator.generation(subnet, cluster).await?;
        let facts = context.index().subnet(subnet);
        match facts.as_ref().map(|facts| facts.usage) {
            Some(Use::NodeCidrs) => record_again(context).await?,
            Some(Use::Pods) => {
                let _alone = context.claims.alone().await;
                let cidrs = facts.map(|facts| facts.cidrs.clone()).unwrap_or_default();
                claim_back(context, subnet, &cidrs).await?;
            }
            _ => {}
        }
        if allocator.open_gate(subnet, cluster, generation).await? {
            return Ok(generation);
        }
    }
}

async fn claim_back(
    context: &Context,
    subnet: &str,
    cidrs: &[Prefix],
) -> Result<(), ReconcileError> {
    let mut holdings = of_nncs(context, subnet).await?;
    let observed: Vec<ObservedAddress> = {
        let pods = context.pods();
        cidrs.iter().flat_map(|cidr| pods.in_cidr(*cidr)).collect()
    };
    let of_pods = observed
        .iter()
        .map(|observed| of_pod(observed, &context.nc_of(&observed.node)));
    holdings.extend(of_pods);
    holdings.retain(|holding| cidrs.iter().any(|cidr| cidr.contains(holding.unit.first())));
    let units = by_unit(holdings);
    let mut outcome = Outcome::default();
    let first = units.values().filter_map(|holders| holders.winner(None));
    let first: Vec<&Holding> = first.collect();
    let claims = first.iter().map(|holding| (*holding, None));
    let claimed = restore(context, subnet, claims).await?;
    let mut moves: Vec<(Holding, Owner)> = Vec::new();
    for (holding, claimed) in first.iter().zip(claimed) {
        let Some(holders) = units.get(&holding.unit) else {
            continue;
        };
        match claimed {
            Claimed::Taken => {
                outcome.taken += 1;
                outcome.conflicts.extend(holders.conflicts(holding));
            }
            Claimed::Had => outcome.conflicts.extend(holders.conflicts(holding)),
            Claimed::Outside => {}
            Claimed::Owned(tenure) => {
                let to = moved_to(context, holders, &tenure.owner).await?;
                outcome.conflicts.extend(holders.contested(&tenure.owner, to.as_ref()));
                moves.extend(to.map(|to| (to, tenure.owner)));
            }
        }
    }
    let moving = moves.iter().map(|(holding, from)| (holding, Some(from.clone())));
    restore(context, subnet, moving).await?;
    outcome.moved = moves.len();
    report(context, subnet, outcome);
    Ok(())
}

#[derive(Default)]
struct Outcome {
    taken: usize,
    moved: usize,
    conflicts: BTreeSet<Conflict>,
}

/// Which node gets a unit that `owner` has in the ledger; `None` if the unit stays with `owner`.
async fn moved_to(
    context: &Context,
    holders: &Holders,
    owner: &Owner,
) -> Result<Option<Holding>, ReconcileError> {
    let is_of_node = matches!(owner.kind(), Kind::Primary | Kind::Secondary);
    if !is_of_node || owner.cluster() != &*context.cluster {
        return Ok(None);
    }
    let mut holders = holders.clone();
    loop {
        let Some(winner) = holders.winner(Some(owner)).cloned() else {
            return Ok(None);
        };
        // The UID of a node that is gone is unknown. The node keeps what it owns as long as a pod
        // shows it.
        let same_node = winner.nc.uid.is_empty() && winner.nc.node == owner.name();
        if same_node || winner.owner().as_ref() == Ok(owner) {
            return Ok(None);
        }
        let Some(pod) = &winner.pod else {
            return Ok(Some(winner));
        };
        // Only a pod that the API server shows at this moment takes an address from another owner.
        if context.pod_shows(pod, winner.unit.first()).await? {
            return Ok(Some(winner));
        }
        holders.without_pod(pod);
    }
}

async fn restore<'a>(
    context: &Context,
    subnet: &str,
    claims: impl Iterator<Item = (&'a Holding, Option<Owner>)>,
) -> Result<Vec<Claimed>, ReconcileError> {
    let claims = claims.map(|(holding, from)| holding.claim(from));
    let claims = claims.collect::<Result<Vec<Claim>, _>>()?;
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    Ok(context.allocator.restore(subnet, claims).await?)
}

/// Lists from the API server and not from the watch, so that no answer is older than this pass.
async fn of_nncs(context: &Context, subnet: &str) -> Result<Vec<Holding>, ReconcileError> {
    let mut holdings = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let nncs = context.nncs().list(&page).await?;
        for nnc in &nncs.items {
            holdings.extend(of_existing_nodes(context, nnc, subnet)?);
        }
        match nncs.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(holdings),
        }
    }
}

/// The holdings of an nnc whose node exists. If the node is gone, only pods prove what is in use.
fn of_existing_nodes(
    context: &Context,
    nnc: &NodeNetworkConfig,
    subnet: &str,
) -> Result<Vec<Holding>, ReconcileError> {
    let name = nnc.name_any();
    let node = context.index().node(&name);
    let Some(node) = node.filter(|node| is_of(nnc, node)) else {
        return Ok(Vec::new());
    };
    Ok(of_nnc(nnc, &context.nc(&name, &node.uid), subnet)?)
}

fn report(context: &Context, subnet: &str, outcome: Outcome) {
    let Outcome {
        taken,
        moved,
        conflicts,
    } = outcome;
    if taken + moved > 0 {
        info!(
            subnet,
            taken, moved, "claimed addresses in the ledger for the nodes that have them"
        );
    }
    context.metrics.claimed(subnet, taken + moved);
    context.metrics.conflicts(subnet, conflicts.len());
    for conflict in context.claims.set_conflicts(subnet, conflicts) {
        let Conflict { unit, owner, other } = &conflict;
        let address: IpAddr = unit.first();
        warn!(subnet, %address, owner, other, "two owners have the same address; both keep it");
        let note = format!(
            "{address} is in use on node {owner} and on node {other}. Both keep it and no other \
             node gets it: delete the pod that has it on one of them"
        );
        for name in [owner, other] {
            let node = context.index().node(name);
            if let Some(node) = node {
                let regarding = reference(name, &node.uid);
                context
                    .background
                    .warn(&regarding, "AddressConflict", "Claim", note.clone());
            }
        }
    }
}
