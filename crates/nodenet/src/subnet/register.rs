//! How Subnets are registered, followed and removed.

use std::time::Duration;

use berth_addr::{Counts, Plan};
use berth_api::Subnet;
use berth_api::subnet::ValidSubnet;
use berth_kit::backoff::Exponential;
use kube::Resource;
use tracing::{debug, info, warn};

use super::decide::{Verdict, accepted};
use super::index::{Registered, Subnets};
use super::status::deleted_in_use;
use crate::allocator::{AllocatorError, Removal, SubnetCounts, scarcest};
use crate::error::ReconcileError;

/// Delays after an allocator did not answer.
const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(100),
    max: Duration::from_secs(10),
};

/// Registers the Subnet. An invalid change leaves what is registered as it is.
pub async fn register(
    subnets: &Subnets,
    name: &str,
    subnet: &Subnet,
    valid: ValidSubnet,
) -> Result<Verdict, ReconcileError> {
    let ValidSubnet { plan, reuse_delay, .. } = valid;
    let allocator = &subnets.context.allocator;
    let before = subnets.index().registered.get(name).cloned();
    let is_same = |before: &Registered| before.plan == plan && before.reuse_delay == reuse_delay;
    let is_registered = before.as_ref().is_some_and(is_same);
    // If others can change the subnet, it is registered again: repeating it costs nothing, and
    // reveals what they changed.
    if is_registered && !allocator.is_shared() {
        return Ok(Verdict::Ready);
    }
    let refused = match allocator.set_subnet(name, &plan, reuse_delay).await {
        Ok(()) => {
            if !is_registered {
                registered(subnets, name, subnet, plan, reuse_delay);
            }
            return Ok(Verdict::Ready);
        }
        Err(refused) => refused,
    };
    let Some(verdict) = Verdict::of_error(&refused) else {
        return Err(refused.into());
    };
    if before.is_none()
        && let Some(accepted) = accepted(subnet)
    {
        // It was registered with other cidrs before this process began: nodes have addresses in
        // those.
        restore(subnets, name, subnet, accepted).await?;
    }
    Ok(verdict)
}

/// Registers the Subnet as it was before this process began. Returns whether that was possible.
pub async fn restore(
    subnets: &Subnets,
    name: &str,
    subnet: &Subnet,
    earlier: ValidSubnet,
) -> Result<bool, ReconcileError> {
    let ValidSubnet { plan, reuse_delay, .. } = earlier;
    match subnets.context.allocator.set_subnet(name, &plan, reuse_delay).await {
        Ok(()) => {
            registered(subnets, name, subnet, plan, reuse_delay);
            Ok(true)
        }
        Err(refused) if Verdict::of_error(&refused).is_some() => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn registered(subnets: &Subnets, name: &str, subnet: &Subnet, plan: Plan, reuse_delay: Duration) {
    info!(subnet = name, "subnet registered");
    let registered = Registered {
        plan,
        reuse_delay,
        object: subnet.object_ref(&()),
    };
    let is_followed = {
        let mut index = subnets.index();
        index.registered.insert(name.to_owned(), registered);
        !subnets.writes() || !index.followed.insert(name.to_owned())
    };
    subnets.context.claims.register(name);
    if !is_followed {
        let (this, name) = (subnets.clone(), name.to_owned());
        subnets
            .context
            .background
            .spawn(async move { follow(&this, &name).await });
    }
    enqueue_refused(subnets);
}

/// Queues the Subnet whenever it may be fuller or emptier than before, as long as it is registered.
async fn follow(subnets: &Subnets, name: &str) {
    let allocator = &subnets.context.allocator;
    // Starts without counts, so that nothing is missed between the first count and the first wait.
    let mut seen = SubnetCounts::default();
    let mut failures = 0;
    loop {
        let changed = async {
            allocator.changed(name, &seen).await?;
            allocator.counts(name).await
        };
        match changed.await {
            Ok(counts) => {
                (seen, failures) = (counts, 0);
                subnets.enqueue_after(name, subnets.until_next_write(name));
                continue;
            }
            // Others have removed it: a reconcile registers it again.
            Err(AllocatorError::NoSubnet { .. }) => subnets.enqueue(name),
            Err(error) => debug!(
                subnet = name,
                %error,
                "cannot follow the counts of the subnet; retrying"
            ),
        }
        if subnets.index().stop_following(name) {
            return;
        }
        tokio::time::sleep(BACKOFF.delay(failures)).await;
        failures += 1;
    }
}

/// Another Subnet has changed: those that it stood in the way of may be good now.
fn enqueue_refused(subnets: &Subnets) {
    subnets.index().refused.iter().for_each(|name| subnets.enqueue(name));
}

/// The counts; `None` if it is not registered: what is registered under its name is another's.
pub async fn counts(subnets: &Subnets, name: &str) -> Result<Option<Counts>, ReconcileError> {
    if !subnets.index().registered.contains_key(name) {
        return Ok(None);
    }
    match subnets.context.allocator.counts(name).await {
        Ok(counts) => Ok(scarcest(&counts.families)),
        // Somebody else has removed it: it is registered again.
        Err(AllocatorError::NoSubnet { .. }) => {
            subnets.index().registered.remove(name);
            subnets.enqueue(name);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// The allocator has removed the subnet.
pub fn unregister(subnets: &Subnets, name: &str) {
    subnets.index().unregister(name);
    enqueue_refused(subnets);
}

/// The object is gone although its finalizer should have kept it. What is owned in it stays owned,
/// and nobody else gets it.
pub async fn delete(subnets: &Subnets, name: &str) -> Result<(), ReconcileError> {
    let Some(registered) = subnets.index().registered.get(name).cloned() else {
        return Ok(());
    };
    let allocator = &subnets.context.allocator;
    let Removal::InUse { owners } = allocator.remove_subnet(name).await? else {
        unregister(subnets, name);
        return Ok(());
    };
    warn!(
        subnet = name,
        owners, "the Subnet is gone, but addresses of it are owned; their owners keep them"
    );
    if subnets.writes() {
        let note = deleted_in_use(owners, allocator.is_shared());
        subnets
            .context
            .background
            .warn(&registered.object, "SubnetInUse", "Delete", note);
    }
    Ok(())
}
