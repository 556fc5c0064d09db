//! Works through Subnets, one at a time.

use std::sync::Arc;
use std::time::Duration;

use berth_api::Subnet;
use kube::{Resource, ResourceExt};

use super::FINALIZER;
use super::decide::{Verdict, accepted};
use super::index::Subnets;
use super::register::{counts, delete, register, unregister};
use super::status::deleting;
use super::write::{set_finalizer, write_status};
use crate::allocator::Removal;
use crate::controller::Controller;
use crate::error::ReconcileError;

/// How often a refused Subnet is tried again if others can make room for it without this process
/// being notified.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

pub async fn reconcile(subnets: Subnets, name: String) -> Result<(), ReconcileError> {
    let done = reconcile_subnet(&subnets, &name).await;
    subnets.mark_reconciled(&name);
    subnets.context.count_outcome(Controller::Subnet, done)
}

async fn reconcile_subnet(subnets: &Subnets, name: &str) -> Result<(), ReconcileError> {
    let subnet = subnets.index().objects.get(name).cloned();
    match subnet {
        Some(subnet) if subnets.writes() => keep(subnets, name, &subnet).await,
        Some(subnet) => mirror(subnets, name, &subnet).await,
        None => delete(subnets, name).await,
    }
}

async fn keep(subnets: &Subnets, name: &str, subnet: &Arc<Subnet>) -> Result<(), ReconcileError> {
    let context = &subnets.context;
    let is_deleted = subnet.metadata.deletion_timestamp.is_some();
    let held = subnet.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
    let subnet = match (is_deleted, held) {
        (_, true) => Arc::clone(subnet),
        // Other finalizers may still hold it, but it is no longer ours.
        (true, false) => return delete(subnets, name).await,
        // The finalizer comes before anything is handed out: from then on the Subnet can't go while
        // somebody owns a part of it.
        (false, false) => match set_finalizer(context, name, subnet, true).await? {
            Some(subnet) => subnet,
            None => return Ok(()),
        },
    };
    let mut verdict = match subnet.validate() {
        Ok(valid) => register(subnets, name, &subnet, valid).await?,
        Err(refusals) => Verdict::of_refusals(&refusals),
    };
    match verdict {
        Verdict::Ready => subnets.index().refused.remove(name),
        _ => subnets.index().refused.insert(name.to_owned()),
    };
    // This process is not notified when a subnet goes that another process has registered in the
    // same store.
    let elsewhere = matches!(verdict, Verdict::Overlapping { .. });
    if verdict != Verdict::Ready && (elsewhere || context.allocator.is_shared()) {
        subnets.enqueue_after(name, RETRY_INTERVAL);
    }
    if is_deleted {
        let Removal::InUse { owners } = context.allocator.remove_subnet(name).await? else {
            return finalize(subnets, name, &subnet).await;
        };
        verdict = Verdict::Deleting { owners };
        let before = subnets.index().deleting.insert(name.to_owned(), owners);
        if before != Some(owners) {
            context.background.warn(
                &subnet.object_ref(&()),
                "SubnetInUse",
                "Delete",
                deleting(owners),
            );
        }
    }
    let counts = counts(subnets, name).await?;
    write_status(subnets, name, &subnet, &verdict, counts).await
}

/// Removes the finalizer of a Subnet that is not registered any more. Until the finalizer is off,
/// the Subnet may be registered again, and nothing is handed out of it meanwhile.
async fn finalize(subnets: &Subnets, name: &str, subnet: &Subnet) -> Result<(), ReconcileError> {
    unregister(subnets, name);
    if set_finalizer(&subnets.context, name, subnet, false).await?.is_some() {
        subnets.index().objects.remove(name);
    }
    Ok(())
}

/// Registers the Subnet as the processes that decide have accepted it.
async fn mirror(subnets: &Subnets, name: &str, subnet: &Subnet) -> Result<(), ReconcileError> {
    if let Some(accepted) = accepted(subnet) {
        register(subnets, name, subnet, accepted).await?;
    }
    Ok(())
}
