//! Registers again what was accepted before this process began, as it was and before anything else.
//!
//! A ledger refuses a plan that overlaps another one. But when it starts it knows none, and would
//! accept the first: perhaps one that was refused before, over addresses that are in use. So at
//! first nothing new is considered. A Subnet's status names the cidrs that were registered last. It
//! is written after the ledger has them. If it was never written, or is lost, the store still has
//! the owners: a plan that leaves out any of their addresses is refused, so the smallest plan that
//! is accepted will do.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_api::Subnet;
use berth_kit::backoff::Exponential;
use kube::{Resource, ResourceExt};
use tracing::{error, warn};

use super::decide::{accepted, earlier_versions};
use super::index::Subnets;
use super::register::restore;
use crate::allocator::Removal;
use crate::error::ReconcileError;

/// Delays after a store did not answer.
const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(100),
    max: Duration::from_secs(10),
};

/// Restores all Subnets, however long the store takes to answer: a Subnet that is left out could
/// lose its addresses to another one.
pub async fn restore_all(subnets: &Subnets) {
    // A service keeps its subnets itself.
    if subnets.context.allocator.is_shared() {
        return;
    }
    begin_epoch(subnets).await;
    let objects = subnets.index().by_precedence();
    for subnet in objects {
        let name = subnet.name_any();
        let mut failures = 0;
        while let Err(error) = restore_one(subnets, &name, &subnet).await {
            let delay = BACKOFF.delay(failures);
            warn!(subnet = name, %error, "cannot restore the subnet; retrying in {delay:.1?}");
            tokio::time::sleep(delay).await;
            failures += 1;
        }
    }
    unregister_gone(subnets).await;
}

/// Subnets that are gone leave the address plan once nobody has anything in them.
async fn unregister_gone(subnets: &Subnets) {
    let names: BTreeSet<String> = subnets.index().objects.keys().cloned().collect();
    if let Err(error) = subnets.context.allocator.unregister_all_but(&names).await {
        warn!(
            %error,
            "cannot remove deleted Subnets from the address plan; they stay in it until the next \
             start"
        );
    }
}

/// The store counts its starts. If the number is not higher than what a Subnet's status has, the
/// store was restored from a copy.
async fn begin_epoch(subnets: &Subnets) {
    let context = &subnets.context;
    let mut failures = 0;
    let epoch = loop {
        match context.allocator.begin_epoch().await {
            Ok(epoch) => break epoch,
            Err(error) => warn!(%error, "cannot begin a new epoch in the ledger; retrying"),
        }
        tokio::time::sleep(BACKOFF.delay(failures)).await;
        failures += 1;
    };
    let mut index = subnets.index();
    index.epoch = epoch;
    for subnet in index.objects.values() {
        let seen = subnet.status.as_ref().and_then(|status| status.epoch).unwrap_or(0);
        if seen >= i64::try_from(epoch).unwrap_or(i64::MAX) {
            let name = subnet.name_any();
            warn!(
                subnet = name,
                epoch,
                seen,
                "the ledger was restored from an older copy; claiming what nodes have before \
                 leasing"
            );
            let note = format!(
                "the ledger was put back from an older copy (epoch {epoch}, {seen} was seen): what \
                 nodes have is claimed again before anything is leased"
            );
            context
                .background
                .warn(&subnet.object_ref(&()), "LedgerRestored", "Claim", note);
        }
    }
}

async fn restore_one(subnets: &Subnets, name: &str, subnet: &Subnet) -> Result<(), ReconcileError> {
    let accepted = accepted(subnet);
    // The Subnet is not registered yet, so this removes nothing: it only tells whether the store
    // has owners of it.
    let removed = subnets.context.allocator.remove_subnet(name).await?;
    if removed == Removal::Removed && accepted.is_none() {
        return Ok(());
    }
    for earlier in accepted.into_iter().chain(earlier_versions(subnet)) {
        if restore(subnets, name, subnet, earlier).await? {
            return Ok(());
        }
    }
    if let Removal::InUse { owners } = removed {
        error!(
            subnet = name,
            owners,
            "cannot register any CIDRs of the Subnet; others may lease its addresses, although \
             they have owners"
        );
    }
    Ok(())
}
