//! Asks the allocator for a node's container, and writes the result to the status.

use std::sync::Arc;

use berth_api::nnc::NetworkContainer;
use berth_api::subnet::Use;
use berth_api::{NodeNetworkConfig, NodeNetworkConfigStatus};

use super::decide::{
    Proposal, Shortfall, Target, delivered, home, max_ip_count, not_selected, shortfall_warnings,
    subnet_full, subnet_gone,
};
use super::observed::{
    claim_observed, keep_one_primary, move_used_leases, move_used_primary, take_over, withhold_used,
};
use super::request::{Request, first_version, is_explained};
use super::status::container_in;
use crate::allocator::{AllocatorError, ContainerRef};
use crate::context::Context;
use crate::error::ReconcileError;
use crate::facts::{NodeFacts, SubnetFacts};
use crate::index::View;
use crate::wait_list::Need;

/// One node, its nnc as it was read, and its container in a subnet.
struct Serving<'a> {
    context: &'a Context,
    subnet: &'a str,
    facts: Option<Arc<SubnetFacts>>,
    nc: &'a ContainerRef,
    node: &'a NodeFacts,
    nnc: &'a NodeNetworkConfig,
    now: &'a NodeNetworkConfigStatus,
}

/// The status with the container for pods.
pub async fn with_pods(
    context: &Context,
    view: &View,
    (name, node): (&str, &NodeFacts),
    nnc: &NodeNetworkConfig,
    now: NodeNetworkConfigStatus,
) -> Result<Proposal, ReconcileError> {
    let nc = context.nc(name, &node.uid);
    let id = nc.id();
    let Some(home) = home(nnc, view, id) else {
        return Ok(not_selected(view, now));
    };
    let had = container_in(nnc.status.as_ref(), &id.to_string());
    let subnet = match had {
        Some(_) => home.to_owned(),
        None => earlier_home(context, home, &nc).await?,
    };
    take_over(context, &subnet, &nc, node).await?;
    claim_observed(context, &subnet, &nc, nnc).await?;
    let serving = Serving {
        context,
        subnet: &subnet,
        facts: context.index().subnet(&subnet),
        nc: &nc,
        node,
        nnc,
        now: &now,
    };
    match had {
        Some(had) => serving.update(had).await,
        None => serving.create().await,
    }
}

/// An nnc that is made again gets the container where the node has it, whatever subnet selects the
/// node now.
async fn earlier_home(
    context: &Context,
    subnet: &str,
    nc: &ContainerRef,
) -> Result<String, ReconcileError> {
    let others = context.index().subnets_for(Use::Pods);
    let primary = nc.primary()?;
    for (other, facts) in others {
        if other != subnet && facts.serving {
            match context.allocator.held(&other, &primary).await {
                Ok(held) if !held.is_empty() => return Ok(other),
                Ok(_) | Err(AllocatorError::NoSubnet { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(subnet.to_owned())
}

impl Serving<'_> {
    fn target(&self) -> Target<'_> {
        Target {
            subnet: self.subnet,
            facts: self.facts.as_deref(),
            node: self.node,
            now: self.now,
        }
    }

    async fn create(&self) -> Result<Proposal, ReconcileError> {
        let Self {
            context, subnet, nc, ..
        } = *self;
        let created = if context.wait_list.is_next(subnet, &nc.node, Need::Start) {
            context.allocator.create(subnet, nc).await
        } else {
            let subnet = subnet.to_owned();
            Err(AllocatorError::SubnetFull { subnet })
        };
        let mut created = match created {
            Err(AllocatorError::SubnetFull { .. }) => {
                let before = context.wait_list.join(subnet, &nc.node, Need::Start);
                return Ok(subnet_full(self.target(), before));
            }
            created => created?,
        };
        context.wait_list.leave(subnet, &nc.node);
        if move_used_primary(context, subnet, nc, &created).await? {
            return Err(self.contended());
        }
        let kept = keep_one_primary(context, subnet, nc, None, &created).await?;
        if kept || !created.secondaries.is_empty() {
            // The container existed, but the nnc did not list it: what it has must be read from the
            // store.
            let found = context.allocator.get(subnet, nc).await?;
            created = found.ok_or_else(|| self.contended())?;
        }
        Ok(delivered(self.target(), &created, first_version(self.nnc)))
    }

    async fn update(&self, had: &NetworkContainer) -> Result<Proposal, ReconcileError> {
        let Self {
            context,
            subnet,
            nc,
            nnc,
            ..
        } = *self;
        let max = max_ip_count(self.facts.as_deref(), self.now);
        let mut request = Request::of(nnc, had, nc.id(), max);
        let moved = withhold_used(context, subnet, nc, had, &mut request).await?;
        let need = Need::More(request.growth);
        let is_next = context.wait_list.is_next(subnet, &nc.node, need);
        let (request, waits_for) = request.in_turn(is_next);
        let mut answer = match context.allocator.update(subnet, nc, request.update()).await {
            Err(AllocatorError::NoSubnet { .. }) if self.facts.is_none() => {
                return Ok(subnet_gone(self.target(), had));
            }
            answer => answer?,
        };
        let short = waits_for.max(answer.short);
        let given_up = move_used_leases(context, subnet, nc, had, &answer).await?;
        if given_up {
            // The node asks again for what is missing now.
            context.wake(&nc.node);
        }
        let kept = keep_one_primary(context, subnet, nc, Some(had), &answer).await?;
        if moved || given_up || kept || !is_explained(had, &request, &answer) {
            answer = match context.allocator.get(subnet, nc).await? {
                Some(found) => found,
                // The container has nothing any more: somebody has given all of it back. It is
                // created again, if there is an address.
                None => return self.create().await,
            };
        }
        answer.short = short;
        let before = if short > 0 {
            context.wait_list.join(subnet, &nc.node, Need::More(short))
        } else {
            context.wait_list.leave(subnet, &nc.node);
            None
        };
        let mut proposal = delivered(self.target(), &answer, had.version);
        let shortfall = Shortfall {
            asked: nnc.spec.requested_ip_count,
            max,
            short,
            before,
        };
        proposal.warnings.extend(shortfall_warnings(subnet, shortfall));
        Ok(proposal)
    }

    fn contended(&self) -> ReconcileError {
        ReconcileError::Contended {
            object: format!("network container of node {}", self.nc.node),
        }
    }
}
