//! Everything that is done for one node, in order and never twice at once: its nnc, its podCIDR,
//! its container. The node, nnc and node-ipam controllers are parts of it; those that do not run
//! are left out.

use berth_api::{NodeNetworkConfig, NodeNetworkConfigStatus, names};
use berth_kit::api_error::{is_conflict, is_not_found};
use kube::Resource;
use kube::api::PostParams;
use tracing::{Instrument, info_span};

use crate::allocator::AllocatorError;
use crate::context::Context;
use crate::controller::Controller;
use crate::error::ReconcileError;
use crate::facts::{NodeFacts, is_of, reference, version};
use crate::index::View;
use crate::nnc::{self, Proposal, Warning};
use crate::node::ensure_nnc;
use crate::node_ipam;

/// Writes under way at a time. Enough to keep an API server busy; more would only wait there.
pub const CONCURRENCY: usize = 64;

/// How often an nnc that others write is read again at once, before it waits for its turn.
const MAX_ATTEMPTS: usize = 4;

/// The outcome of one attempt at an nnc.
#[derive(Debug)]
enum Outcome {
    /// The nnc is as it should be.
    Settled {
        version: u64,
    },
    /// Written, and there may be more to do.
    Written(Box<NodeNetworkConfig>),
    /// The nnc has changed since it was read.
    Conflict,
    Gone,
}

pub async fn reconcile(context: Context, name: String) -> Result<(), ReconcileError> {
    let Some(view) = context.index().take(&name) else {
        return Ok(());
    };
    let span = info_span!("node", name);
    let done = {
        let _turn = context.claims.turn().await;
        reconcile_node(&context, &name, &view).instrument(span).await
    };
    if let Err(ReconcileError::Allocator(AllocatorError::Unclaimed { subnet })) = &done {
        // The node comes back when what nodes have is claimed, which is under way.
        context.index().mark_pending(&name);
        context.claims.wait(subnet, &name);
        return Ok(());
    }
    if done.is_err() {
        // The node comes back. Meanwhile the nodes behind it need not wait for it.
        context.index().mark_pending(&name);
        context.wait_list.leave_all(&name);
    }
    done
}

async fn reconcile_node(context: &Context, name: &str, view: &View) -> Result<(), ReconcileError> {
    if context.runs(Controller::NodeIpam)
        && let Some(node) = view.node.as_deref()
        && view.node_cidrs.is_none()
    {
        let recorded = node_ipam::record_unselected(context, name, node).await;
        context.count_outcome(Controller::NodeIpam, recorded)?;
    }
    // The nnc is read again and not taken from the watch, which may be far behind: the next steps
    // decide about addresses.
    let mut nnc = match view.has_nnc {
        true => context.nncs().get_opt(name).await?,
        false => None,
    };
    if context.runs(Controller::Node) {
        let ensured = ensure_nnc(context, name, view, nnc).await;
        nnc = context.count_outcome(Controller::Node, ensured)?;
    }
    let Some(nnc) = nnc else {
        context.wait_list.leave_all(name);
        return Ok(());
    };
    let parts = [Controller::Nnc, Controller::NodeIpam];
    if let Some(part) = parts.into_iter().find(|part| context.runs(*part)) {
        let served = serve(context, name, view, nnc).await;
        context.count_outcome(part, served)?;
    }
    Ok(())
}

async fn serve(
    context: &Context,
    name: &str,
    view: &View,
    mut nnc: NodeNetworkConfig,
) -> Result<(), ReconcileError> {
    for _ in 0..MAX_ATTEMPTS {
        match attempt(context, name, view, &nnc).await? {
            Outcome::Settled { version } => {
                context.index().settle(name, version);
                return Ok(());
            }
            Outcome::Written(written) => nnc = *written,
            Outcome::Conflict => match context.nncs().get_opt(name).await? {
                Some(read) => nnc = read,
                None => return Ok(()),
            },
            Outcome::Gone => return Ok(()),
        }
    }
    let object = format!("NodeNetworkConfig {name}");
    Err(ReconcileError::Contended { object })
}

async fn attempt(
    context: &Context,
    name: &str,
    view: &View,
    nnc: &NodeNetworkConfig,
) -> Result<Outcome, ReconcileError> {
    let settled = Outcome::Settled { version: version(nnc) };
    if nnc.metadata.deletion_timestamp.is_some() {
        if !context.runs(Controller::Nnc) {
            return Ok(settled);
        }
        context.wait_list.leave_all(name);
        return match nnc::remove_finalizer(context, name, nnc).await? {
            true => Ok(Outcome::Gone),
            false => Ok(Outcome::Conflict),
        };
    }
    let Some(node) = view.node.as_deref().filter(|node| is_of(nnc, node)) else {
        return Ok(settled);
    };
    // The subnet that the node waited for may not be the one that serves it any more.
    let nc = context.nc(name, &node.uid).id();
    let homes = [nnc::home(nnc, view, nc), view.node_cidrs.as_deref()];
    context.wait_list.leave_all_but(name, &homes);

    let now = nnc.status.clone().unwrap_or_default();
    let mut next = Proposal::from(now.clone());
    if context.runs(Controller::NodeIpam) {
        next.status = node_ipam::with_pod_cidrs(context, name, view, node, next.status).await?;
    }
    if context.runs(Controller::Nnc) {
        next = nnc::with_pods(context, view, (name, node), nnc, next.status).await?;
    }
    if next.status == now {
        next.warnings.retain(|warning| warning.is_new);
        emit(context, name, node, nnc, next.warnings);
        return Ok(settled);
    }
    let Some(written) = write_status(context, name, nnc, next.status).await? else {
        return Ok(Outcome::Conflict);
    };
    emit(context, name, node, nnc, next.warnings);
    let made = now.network_containers.is_empty() && has_container(&written);
    if made && let Some(since) = view.since {
        context.metrics.container_written(since.elapsed());
    }
    let asks = written.spec.requested_ip_count > 0 || !written.spec.ips_not_in_use.is_empty();
    if made && asks {
        return Ok(Outcome::Written(Box::new(written)));
    }
    Ok(Outcome::Settled {
        version: version(&written),
    })
}

/// Writes over exactly the state that was read; `None` if it has changed since.
async fn write_status(
    context: &Context,
    name: &str,
    nnc: &NodeNetworkConfig,
    status: NodeNetworkConfigStatus,
) -> Result<Option<NodeNetworkConfig>, ReconcileError> {
    let mut next = nnc.clone();
    next.metadata.managed_fields = None;
    next.status = Some(status);
    let params = PostParams {
        field_manager: Some(names::field_manager::NNC.to_owned()),
        ..PostParams::default()
    };
    match context.nncs().replace_status(name, &params, &next).await {
        Err(error) if is_conflict(&error) || is_not_found(&error) => Ok(None),
        written => Ok(Some(written?)),
    }
}

fn emit(
    context: &Context,
    name: &str,
    node: &NodeFacts,
    nnc: &NodeNetworkConfig,
    warnings: Vec<Warning>,
) {
    for Warning {
        reason,
        note,
        about_node,
        ..
    } in warnings
    {
        if about_node {
            context
                .background
                .warn(&reference(name, &node.uid), reason, "Allocate", note.clone());
        }
        context.background.warn(&nnc.object_ref(&()), reason, "Allocate", note);
    }
}

fn has_container(nnc: &NodeNetworkConfig) -> bool {
    let status = nnc.status.as_ref();
    status.is_some_and(|status| !status.network_containers.is_empty())
}
