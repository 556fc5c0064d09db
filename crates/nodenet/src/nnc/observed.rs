//! Compares what the agent and the node's pods report with the ledger and the nnc, so that no pod
//! loses its address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use berth_addr::Prefix;
use berth_api::nnc::NetworkContainer;
use berth_api::{LeaseOf, NodeNetworkConfig, lease_name};
use berth_ledger::{Claim, Claimed, Lease, Owner};
use tracing::{info, warn};

use super::decide::{Contradicted, contradicted, in_use_elsewhere, surplus_primaries};
use super::request::Request;
use crate::allocator::{AllocatorError, Container, ContainerRef};
use crate::context::Context;
use crate::error::ReconcileError;
use crate::facts::NodeFacts;
use crate::holdings::{Holding, held_beyond, of_pod};
use crate::pods::ObservedAddress;

/// Claims what the agent holds or a pod on the node shows although the nnc does not list it. It
/// becomes the node's if nobody else has it.
pub async fn claim_observed(
    context: &Context,
    subnet: &str,
    nc: &ContainerRef,
    nnc: &NodeNetworkConfig,
) -> Result<(), ReconcileError> {
    let listed: BTreeSet<IpAddr> = listed(nnc).collect();
    let mut holdings = held_beyond(nnc, nc)?;
    let observed = context.pods().on_node(&nc.node);
    holdings.extend(observed.iter().map(|observed| of_pod(observed, nc)));
    review_conflicts(context, subnet, nc, &listed, &holdings);
    holdings.retain(|holding| !listed.contains(&holding.unit.first()));
    let mut units = BTreeSet::new();
    holdings.retain(|holding| units.insert(holding.unit));
    let mut by_subnet: BTreeMap<String, Vec<Holding>> = BTreeMap::new();
    for holding in holdings {
        if let Some(of) = context.index().pods_subnet_of(holding.unit.first()) {
            by_subnet.entry(of).or_default().push(holding);
        }
    }
    for (subnet, holdings) in by_subnet {
        claim_of(context, &subnet, nc, &holdings).await?;
    }
    Ok(())
}

/// A conflict is over when this node does not have the address any more.
fn review_conflicts(
    context: &Context,
    subnet: &str,
    nc: &ContainerRef,
    listed: &BTreeSet<IpAddr>,
    holdings: &[Holding],
) {
    let has = |address: IpAddr| {
        let held = holdings.iter().any(|holding| holding.unit.first() == address);
        held || listed.contains(&address)
    };
    let conflicts = context.claims.conflicts_of(subnet, &nc.node);
    if conflicts.iter().any(|unit| !has(unit.first())) {
        context.claims.request(subnet);
    }
}

async fn claim_of(
    context: &Context,
    subnet: &str,
    nc: &ContainerRef,
    holdings: &[Holding],
) -> Result<(), ReconcileError> {
    let claims = |from: &dyn Fn(usize) -> Option<Owner>| {
        let each = holdings.iter().enumerate();
        let each = each.map(|(n, holding)| holding.claim(from(n)));
        each.collect::<Result<Vec<Claim>, _>>()
    };
    let registry = &context.allocator;
    let claimed = match registry.restore(subnet, claims(&|_| None)?).await {
        // The node comes back when the Subnet does.
        Err(AllocatorError::NoSubnet { .. }) => return Ok(()),
        claimed => claimed?,
    };
    let mut earlier: BTreeMap<usize, Owner> = BTreeMap::new();
    for (n, (holding, claimed)) in holdings.iter().zip(&claimed).enumerate() {
        match claimed {
            Claimed::Taken => {
                let unit = holding.unit;
                info!(
                    subnet,
                    node = nc.node,
                    %unit,
                    "claimed an address in the ledger for the node that has it"
                );
            }
            // The owner is an earlier Node of this name, which is gone: a name has only one Node.
            Claimed::Owned(tenure) if is_predecessor(&tenure.owner, nc) => {
                earlier.insert(n, tenure.owner.clone());
            }
            // A pass, which runs alone, finds out which of the two has it.
            Claimed::Owned(_) if !context.claims.is_in_conflict(subnet, holding.unit) => {
                context.claims.request(subnet);
            }
            _ => {}
        }
    }
    if !earlier.is_empty() {
        let moves = claims(&|n| earlier.get(&n).cloned())?;
        registry.restore(subnet, moves).await?;
    }
    Ok(())
}

fn is_predecessor(owner: &Owner, nc: &ContainerRef) -> bool {
    owner.cluster() == nc.cluster && owner.name() == nc.node && owner.uid() != nc.uid
}

/// A Node that was registered again on its machine keeps all that it had, under the names that its
/// agent knows.
pub async fn take_over(
    context: &Context,
    subnet: &str,
    nc: &ContainerRef,
    node: &NodeFacts,
) -> Result<(), ReconcileError> {
    let Some(uid) = context.index().predecessor(&nc.node, node) else {
        return Ok(());
    };
    let before = context.nc(&nc.node, &uid);
    let registry = &context.allocator;
    let mut count = 0;
    for (from, to, is_primary) in [
        (before.primary()?, nc.primary()?, true),
        (before.secondary()?, nc.secondary()?, false),
    ] {
        let held = match registry.held(subnet, &from).await {
            Err(AllocatorError::NoSubnet { .. }) => return Ok(()),
            held => held?,
        };
        // The Node may have been served before it reported its machine. Then it needs no second
        // address of its own, and reclaim takes back the earlier one.
        if is_primary && !registry.held(subnet, &to).await?.is_empty() {
            continue;
        }
        let claim = |lease: &Lease| {
            // The lease of a container's own address has the container's id.
            let id = if is_primary { nc.id() } else { lease.id };
            let each = lease.units.iter().map(|unit| Claim {
                unit: *unit,
                owner: to.clone(),
                lease: id,
                from: Some(from.clone()),
            });
            each.collect::<Vec<Claim>>()
        };
        let claims: Vec<Claim> = held.iter().flat_map(claim).collect();
        count += claims.len();
        registry.restore(subnet, claims).await?;
    }
    if count > 0 {
        let node = &nc.node;
        info!(
            subnet,
            node, count, "the Node was created again on its machine; it keeps its addresses"
        );
    }
    context.index().delete_predecessor(&nc.node);
    Ok(())
}

/// Keeps what is given back although a living pod has it. Returns whether anything went to another
/// node.
pub async fn withhold_used(
    context: &Context,
    subnet: &str,
    nc: &ContainerRef,
    had: &NetworkContainer,
    request: &mut Request,
) -> Result<bool, ReconcileError> {
    if request.give_back.is_empty() {
        return Ok(false);
    }
    let observed = |address| context.pods().of_address(address);
    let found = contradicted(had, &request.give_back, &nc.node, observed);
    let Contradicted { withheld, elsewhere } = found;
    for (address, lease) in withheld {
        context.claims.withhold(address, &nc.node);
        request.give_back.remove(&lease);
    }
    move_to_pods(context, subnet, &nc.secondary()?, elsewhere).await
}

/// The last safeguard: an address that was leased just now, but that a living pod on another node
/// has, goes to that node. Returns whether any did.
pub async fn move_used_leases(
    context: &Context,
    subnet: &str,
    nc: &ContainerRef,
    had: &NetworkContainer,
    answer: &Container,
) -> Result<bool, ReconcileError> {
    let observed = |address| context.pods().of_address(address);
    let elsewhere = in_use_elsewhere(had, answer, &nc.node, observed);
    move_to_pods(context, subnet, &nc.secondary()?, elsewhere).await
}

/// The same for a container's own address.
pub async fn move_used_primary(
    context: &Context,
    subnet: &str,
    nc: &ContainerRef,
    created: &Container,
) -> Result<bool, ReconcileError> {
    let observed = |unit: &Prefix| context.pods().of_address(unit.first()).into_iter().next();
    let observed: Vec<ObservedAddress> = created.primary.iter().filter_map(observed).collect();
    move_to_pods(context, subnet, &nc.primary()?, observed).await
}

/// A container needs one address of its own in each family. Any others become addresses for the
/// node's pods, and go back as those do. Returns whether there were any.
///
/// It is safe to stop at any point: the unit has one owner or the other, and both are this node's.
pub async fn keep_one_primary(
    context: &Context,
    subnet: &str,
    nc: &ContainerRef,
    had: Option<&NetworkContainer>,
    answer: &Container,
) -> Result<bool, ReconcileError> {
    let surplus = surplus_primaries(had, answer);
    let node = &nc.node;
    let mut claims = Vec::new();
    for unit in surplus {
        info!(
            subnet,
            node,
            %unit,
            "the node has a second primary address; making it an address for its pods"
        );
        let first = unit.first();
        claims.push(Claim {
            unit,
            owner: nc.secondary()?,
            lease: lease_name(LeaseOf::Observed { nc: nc.id(), first }),
            from: Some(nc.primary()?),
        });
    }
    let found = !claims.is_empty();
    if found {
        context.allocator.restore(subnet, claims).await?;
    }
    Ok(found)
}

async fn move_to_pods(
    context: &Context,
    subnet: &str,
    owner: &Owner,
    observed: Vec<ObservedAddress>,
) -> Result<bool, ReconcileError> {
    let mut moved = false;
    for observed in observed {
        let ObservedAddress {
            pod, node, address, ..
        } = &observed;
        if !context.pod_shows(pod, *address).await? {
            continue;
        }
        warn!(
            subnet,
            %address,
            pod,
            node,
            "a living pod has this address; moving it to the pod's node"
        );
        let claim = of_pod(&observed, &context.nc_of(node)).claim(Some(owner.clone()))?;
        context.allocator.restore(subnet, vec![claim]).await?;
        context.wake(node);
        moved = true;
    }
    Ok(moved)
}

fn listed(nnc: &NodeNetworkConfig) -> impl Iterator<Item = IpAddr> {
    let containers = nnc.status.iter().flat_map(|status| &status.network_containers);
    let assignments = containers.flat_map(|container| &container.ip_assignments);
    assignments.filter_map(|assignment| assignment.ip.parse().ok())
}
