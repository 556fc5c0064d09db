//! Looks for owners when something may have gone, asks both observers again, and takes back.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_ledger::{Kind, Lease, LeaseId, Owner};
use kube::Resource;
use tokio::time::Instant;
use tracing::{info, warn};

use super::decide::{Place, Suspects, due_at, has_left, is_of_node, is_stray};
use crate::allocator::AllocatorError;
use crate::context::Context;
use crate::controller::Controller;
use crate::error::ReconcileError;
use crate::facts::NncFacts;
use crate::holdings::held_beyond;

/// How often owners are searched, if nothing is due before and nothing is known to have gone.
const INTERVAL: Duration = Duration::from_secs(60);

/// Delay after the first change, so that a rack of nodes that goes is handled in one run.
const DEBOUNCE: Duration = Duration::from_millis(100);

/// Runs for the lifetime of the controllers.
pub async fn run(context: Context) {
    let mut suspects = Suspects::default();
    loop {
        let looked = reconcile(&context, &mut suspects).await;
        let looked = context.count_outcome(Controller::Reclaim, looked);
        context.pods().prune(context.node_grace, Instant::now());
        let next = looked.unwrap_or_else(|error| {
            warn!(
                %error,
                "cannot take back all addresses of nodes that are gone or moved; retrying in \
                 {INTERVAL:?}"
            );
            None
        });
        let next = next.unwrap_or(INTERVAL).min(INTERVAL);
        tokio::select! {
            () = tokio::time::sleep(next) => {}
            () = context.reclaim.notified() => tokio::time::sleep(DEBOUNCE).await,
        }
    }
}

/// An error with one owner does not stop the others: all are tried, and the first error is
/// returned. Returns when the next is due.
async fn reconcile(
    context: &Context,
    suspects: &mut Suspects,
) -> Result<Option<Duration>, ReconcileError> {
    let Context {
        allocator, cluster, ..
    } = context;
    let mut gone = BTreeSet::new();
    let mut looked = Ok(());
    for subnet in allocator.subnets().await? {
        match allocator.owners(&subnet, cluster).await {
            Ok(owners) => {
                let theirs = owners.into_iter().filter(|owner| is_of_node(owner, cluster));
                let left = theirs.filter(|owner| looks_gone(context, &subnet, owner));
                gone.extend(left.map(|owner| (subnet.clone(), owner)));
            }
            // The subnet went just now, and with it all that was owned.
            Err(AllocatorError::NoSubnet { .. }) => {}
            Err(error) => looked = looked.and(Err(error.into())),
        }
    }
    let now = Instant::now();
    let mut next: Option<Instant> = None;
    // The container's own address goes last: the container exists as long as that does.
    let mut suspects = suspects.observe(gone, now);
    suspects.sort_by_key(|((_, owner), _)| owner.kind() == Kind::Primary);
    for (place, since) in suspects {
        match review(context, &place, since, now).await {
            Ok(due) => next = [next, due].into_iter().flatten().min(),
            Err(error) => looked = looked.and(Err(error)),
        }
    }
    looked?;
    Ok(next.map(|next| next.saturating_duration_since(now)))
}

fn container(context: &Context, owner: &Owner) -> String {
    context.nc(owner.name(), owner.uid()).id().to_string()
}

/// Whether the owner looks gone, according to the watches.
fn looks_gone(context: &Context, subnet: &str, owner: &Owner) -> bool {
    let index = context.index();
    let node = index.node(owner.name());
    let node = node.as_deref().map(|node| node.uid.as_str());
    let nnc = index.nnc(owner.name());
    has_left(owner, &container(context, owner), node, nnc) || is_stray(owner, subnet, node, nnc)
}

/// Takes back what is due, and returns when the rest is.
async fn review(
    context: &Context,
    place: &Place,
    since: Instant,
    now: Instant,
) -> Result<Option<Instant>, ReconcileError> {
    let (subnet, owner) = place;
    let held = context.allocator.held(subnet, owner).await?;
    let (mut due, mut next) = (Vec::new(), None);
    for lease in held {
        match lease_due_at(context, subnet, owner, &lease, since) {
            Some(at) if at <= now => due.push(lease.id),
            at => next = [next, at].into_iter().flatten().min(),
        }
    }
    if !due.is_empty() && !take_back(context, subnet, owner, due).await? {
        next = [next, now.checked_add(INTERVAL)].into_iter().flatten().min();
    }
    Ok(next)
}

/// When the lease is due; `None` as long as a pod shows it.
fn lease_due_at(
    context: &Context,
    subnet: &str,
    owner: &Owner,
    lease: &Lease,
    since: Instant,
) -> Option<Instant> {
    let pods = context.pods();
    let unused = lease.units.iter().map(|unit| pods.unused_since_in(*unit));
    let unused: Option<Vec<Instant>> = unused.collect();
    let unused = unused?.into_iter().max().unwrap_or(since);
    let awaited = context.wait_list.is_awaited(subnet) && !pods.has_waiting(owner.name());
    Some(due_at(since, unused, context.node_grace, awaited))
}

/// Takes leases back only if the API server confirms at this moment that the owner is gone. A Node
/// with this UID can't come back after that, and without a Node no nnc gets its container. Returns
/// whether both observers agree.
async fn take_back(
    context: &Context,
    subnet: &str,
    owner: &Owner,
    leases: Vec<LeaseId>,
) -> Result<bool, ReconcileError> {
    // No pass runs meanwhile: it must not claim these for a Node that comes back while they are
    // taken.
    let _turn = context.claims.turn().await;
    let node = context.nodes().get_opt(owner.name()).await?;
    let nnc = context.nncs().get_opt(owner.name()).await?;
    let node = node.and_then(|node| node.metadata.uid);
    let facts = nnc.as_ref().map(NncFacts::of);
    let has_left = has_left(owner, &container(context, owner), node.as_deref(), facts.as_ref());
    if !has_left && !is_stray(owner, subnet, node.as_deref(), facts.as_ref()) {
        return Ok(false);
    }
    let mut leases: BTreeSet<LeaseId> = leases.into_iter().collect();
    if let Some(nnc) = &nnc {
        let nc = context.nc(owner.name(), owner.uid());
        for holding in held_beyond(nnc, &nc)? {
            leases.remove(&holding.lease);
        }
    }
    let leases = leases.into_iter().collect();
    let count = context.allocator.take_back(subnet, owner, leases).await?;
    if count == 0 {
        return Ok(true);
    }
    info!(
        subnet,
        %owner,
        count,
        "took back addresses of a node that is gone or has moved to another Subnet"
    );
    let Some(object) = context.subnets().get_opt(subnet).await? else {
        return Ok(true);
    };
    let note = format!(
        "took back {count} of {owner}: its Node and its NodeNetworkConfig are gone, and no pod has \
         shown these addresses for {} s",
        context.node_grace.as_secs()
    );
    context
        .background
        .warn(&object.object_ref(&()), "Reclaimed", "Reclaim", note);
    Ok(true)
}
