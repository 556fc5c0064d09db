//! One pass over a subnet: collect, restore, tell, open.

use std::collections::BTreeSet;
use std::net::IpAddr;

use berth_addr::Prefix;
use berth_api::NodeNetworkConfig;
use berth_api::subnet::Use;
use berth_ledger::{Claim, Claimed, Kind, Owner};
use kube::ResourceExt;
use kube::api::ListParams;
use tracing::{info, warn};

use super::collect::{Holding, of_config, of_pod};
use super::decide::{Conflict, Holders, by_unit};
use crate::allocator::AllocatorError;
use crate::controllers::{Failure, Nodes};
use crate::nnc::is_of;
use crate::node;
use crate::pods::Address;

/// NodeNetworkConfigs of one answer.
const PAGE: u32 = 250;

/// Gives the generation of the subnet that is claimed now.
pub async fn pass(nodes: &Nodes, subnet: &str) -> Result<u64, Failure> {
    let (allocator, cluster) = (&nodes.context.allocator, &nodes.context.cluster);
    loop {
        // First: what is lost after this is claimed by the next pass.
        let generation = allocator.generation(subnet, cluster).await?;
        let facts = nodes.index().subnet(subnet);
        match facts.as_ref().map(|facts| facts.usage) {
            Some(Use::NodeCidrs) => nodes.record_again().await?,
            Some(Use::Pods) => {
                let _alone = nodes.claims().alone().await;
                let cidrs = facts.map(|facts| facts.cidrs.clone()).unwrap_or_default();
                claim_back(nodes, subnet, &cidrs).await?;
            }
            _ => {}
        }
        if allocator.open_gate(subnet, cluster, generation).await? {
            return Ok(generation);
        }
    }
}

async fn claim_back(nodes: &Nodes, subnet: &str, cidrs: &[Prefix]) -> Result<(), Failure> {
    let mut holdings = of_configs(nodes, subnet).await?;
    let shown: Vec<Address> = cidrs.iter().flat_map(|cidr| nodes.pods().in_cidr(*cidr)).collect();
    holdings.extend(shown.iter().map(|shown| of_pod(shown, &nodes.nc_of(&shown.node))));
    holdings.retain(|holding| cidrs.iter().any(|cidr| cidr.contains(holding.unit.first())));
    let units = by_unit(holdings);
    let mut outcome = Outcome::default();
    let first = units.values().filter_map(|holders| holders.winner(None));
    let first: Vec<&Holding> = first.collect();
    let claimed = restore(nodes, subnet, first.iter().map(|holding| (*holding, None))).await?;
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
                let to = moved_to(nodes, holders, &tenure.owner).await?;
                outcome.conflicts.extend(holders.contested(&tenure.owner, to.as_ref()));
                moves.extend(to.map(|to| (to, tenure.owner)));
            }
        }
    }
    let moving = moves.iter().map(|(holding, from)| (holding, Some(from.clone())));
    restore(nodes, subnet, moving).await?;
    outcome.moved = moves.len();
    tell(nodes, subnet, outcome);
    Ok(())
}

#[derive(Default)]
struct Outcome {
    taken: usize,
    moved: usize,
    conflicts: BTreeSet<Conflict>,
}

impl Holders {
    /// Where the ledger has another owner than the first choice: who else has it beside the one
    /// that is to own it.
    fn contested(&self, owner: &Owner, to: Option<&Holding>) -> Vec<Conflict> {
        let winner =
            to.or_else(|| self.iter().find(|holding| holding.owner().as_ref() == Ok(owner)));
        match winner {
            Some(winner) => self.conflicts(winner),
            // Somebody who is no node of ours owns it, and keeps it.
            None => {
                let conflict = |holding: &Holding| Conflict {
                    unit: holding.unit,
                    owner: owner.to_string(),
                    other: holding.nc.node.clone(),
                };
                self.iter().map(conflict).collect()
            }
        }
    }
}

/// To whom the unit goes that the ledger says this owner has: `None` when it stays.
async fn moved_to(
    nodes: &Nodes,
    holders: &Holders,
    owner: &Owner,
) -> Result<Option<Holding>, Failure> {
    let is_of_node = matches!(owner.kind(), Kind::Primary | Kind::Secondary);
    if !is_of_node || owner.cluster() != &*nodes.context.cluster {
        return Ok(None);
    }
    let mut holders = holders.clone();
    loop {
        let Some(winner) = holders.winner(Some(owner)).cloned() else {
            return Ok(None);
        };
        // A node that is gone has no UID any more that we know of, and keeps what it owns as long
        // as a pod shows it.
        let same_node = winner.nc.uid.is_empty() && winner.nc.node == owner.name();
        if same_node || winner.owner().as_ref() == Ok(owner) {
            return Ok(None);
        }
        let Some(pod) = &winner.pod else {
            return Ok(Some(winner));
        };
        // The watch may be behind: only a pod that the API server shows at this moment takes an
        // address from another owner.
        if nodes.pod_shows(pod, winner.unit.first()).await? {
            return Ok(Some(winner));
        }
        holders.without_pod(pod);
    }
}

async fn restore<'a>(
    nodes: &Nodes,
    subnet: &str,
    claims: impl Iterator<Item = (&'a Holding, Option<Owner>)>,
) -> Result<Vec<Claimed>, Failure> {
    let claims = claims.map(|(holding, from)| holding.claim(from));
    let claims = claims
        .collect::<Result<Vec<Claim>, _>>()
        .map_err(AllocatorError::from)?;
    if claims.is_empty() {
        return Ok(Vec::new());
    }
    Ok(nodes.context.allocator.restore(subnet, claims).await?)
}

/// From the API server and not from the watch: what it says is as old as this pass.
async fn of_configs(nodes: &Nodes, subnet: &str) -> Result<Vec<Holding>, Failure> {
    let mut holdings = Vec::new();
    let mut page = ListParams::default().limit(PAGE);
    loop {
        let configs = nodes.context.configs().list(&page).await?;
        for config in &configs.items {
            holdings.extend(of_living(nodes, config, subnet));
        }
        match configs.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => return Ok(holdings),
        }
    }
}

/// What the config of a node that is gone lists, only its pods can speak for.
fn of_living(nodes: &Nodes, config: &NodeNetworkConfig, subnet: &str) -> Vec<Holding> {
    let name = config.name_any();
    let node = nodes.index().node(&name);
    let Some(node) = node.filter(|node| is_of(config, node)) else {
        return Vec::new();
    };
    of_config(config, &nodes.context.container(&name, &node.uid), subnet)
}

fn tell(nodes: &Nodes, subnet: &str, outcome: Outcome) {
    let Outcome {
        taken,
        moved,
        conflicts,
    } = outcome;
    if taken + moved > 0 {
        info!(
            subnet,
            taken, moved, "claimed what nodes have and the ledger did not know"
        );
    }
    nodes.context.metrics.claimed(subnet, taken + moved);
    nodes.context.metrics.conflicts(subnet, conflicts.len());
    for conflict in nodes.claims().set_conflicts(subnet, conflicts) {
        let Conflict { unit, owner, other } = &conflict;
        let address: IpAddr = unit.first();
        warn!(subnet, %address, owner, other, "two nodes have one address");
        let note = format!(
            "{address} is in use on node {owner} and on node {other}. Both keep it and no other \
             node gets it: delete the pod that has it on one of \
             them"
        );
        for name in [owner, other] {
            if let Some(node) = nodes.index().node(name) {
                let regarding = node::reference(name, &node.uid);
                nodes.context.warn(&regarding, "AddressConflict", "Claim", note.clone());
            }
        }
    }
}
