//! What was accepted before this process began is made known again as it was, and before anything
//! else is.
//!
//! A ledger refuses a plan that overlaps another one. But when it starts it knows none, and the
//! first would be taken: perhaps one that was refused, over addresses that are in use. So at first
//! nothing new is considered. A Subnet's status names the cidrs that were followed last. It is
//! written after the ledger was told of them; and if it was never written, or is lost, those who
//! own something are in the store: a plan that leaves out any of that is refused, so the smallest
//! that is not will do.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use berth_api::Subnet;
use berth_api::subnet::ValidSubnet;
use berth_kit::backoff::Exponential;
use kube::{Resource, ResourceExt};
use tracing::{error, warn};

use super::apply::Subnets;
use super::decide::{Verdict, accepted, precedence, stages};
use crate::allocator::Removal;
use crate::controllers::Failure;

/// After a store that does not answer.
const AGAIN: Exponential = Exponential {
    base: Duration::from_millis(100),
    max: Duration::from_secs(10),
};

impl Subnets {
    /// All of them, however long the store takes to answer: a Subnet that is left out could lose
    /// its addresses to another one.
    pub async fn recall(&self) {
        // A service remembers by itself.
        if self.context.allocator.is_shared() {
            return;
        }
        self.begin_epoch().await;
        let mut subnets: Vec<Arc<Subnet>> = self.state().objects.values().cloned().collect();
        subnets.sort_by_key(|subnet| precedence(subnet));
        for subnet in subnets {
            let name = subnet.name_any();
            let mut failures = 0;
            while let Err(failure) = self.recall_one(&name, &subnet).await {
                warn!(subnet = name, %failure, "what it has given can't be looked for, it is \
                                                tried again");
                tokio::time::sleep(AGAIN.delay(failures)).await;
                failures += 1;
            }
        }
        self.unregister_gone().await;
    }

    /// Subnets that are gone leave the address plan once nobody has anything in them.
    async fn unregister_gone(&self) {
        let names = self.state().objects.keys().cloned().collect();
        if let Some(ledger) = &self.context.ledger
            && let Err(error) = ledger.unregister_all_but(&names).await
        {
            warn!(%error, "Subnets that are gone stay in the address plan");
        }
    }

    /// The store says how often it was begun with. Less than what a Subnet saw: it was put back
    /// from a copy.
    async fn begin_epoch(&self) {
        let Some(ledger) = &self.context.ledger else {
            return;
        };
        let mut failures = 0;
        let epoch = loop {
            match ledger.begin_epoch().await {
                Ok(epoch) => break epoch,
                Err(error) => warn!(%error, "the ledger can't be begun with; retrying"),
            }
            tokio::time::sleep(AGAIN.delay(failures)).await;
            failures += 1;
        };
        self.context.epoch.store(epoch, Ordering::Relaxed);
        for subnet in self.state().objects.values() {
            let seen = subnet.status.as_ref().and_then(|status| status.epoch).unwrap_or(0);
            if seen >= i64::try_from(epoch).unwrap_or(i64::MAX) {
                let note = format!(
                    "the ledger was put back from an older copy (epoch {epoch}, {seen} was seen): \
                     what nodes have is claimed again before anything \
                     is leased"
                );
                warn!(
                    subnet = subnet.name_any(),
                    epoch, seen, "the ledger was put back from an older copy"
                );
                self.context
                    .warn(&subnet.object_ref(&()), "LedgerRestored", "Claim", note);
            }
        }
    }

    async fn recall_one(&self, name: &str, subnet: &Subnet) -> Result<(), Failure> {
        let accepted = accepted(subnet);
        // It is not known yet, so there is nothing to be removed: this only tells whether the store
        // has owners of it.
        let removed = self.context.allocator.remove_subnet(name).await?;
        if removed == Removal::Removed && accepted.is_none() {
            return Ok(());
        }
        for earlier in accepted.into_iter().chain(stages(subnet)) {
            if self.restore(name, subnet, earlier).await? {
                return Ok(());
            }
        }
        if let Removal::InUse { owners } = removed {
            error!(
                subnet = name,
                owners,
                "none of its cidrs can be followed, although addresses of it are owned: nothing \
                 keeps others from them"
            );
        }
        Ok(())
    }

    /// Whether it could be.
    pub(super) async fn restore(
        &self,
        name: &str,
        subnet: &Subnet,
        earlier: ValidSubnet,
    ) -> Result<bool, Failure> {
        let ValidSubnet { plan, reuse_delay, .. } = earlier;
        match self.context.allocator.set_subnet(name, &plan, reuse_delay).await {
            Ok(()) => {
                self.learn(name, subnet, plan, reuse_delay);
                Ok(true)
            }
            Err(refused) if Verdict::of_error(&refused).is_some() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
