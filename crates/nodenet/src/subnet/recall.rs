//! What was accepted before this process began is made known again as it was, and before anything else is.
//!
//! A ledger refuses a plan that overlaps another one. But when it starts it knows none, and the first would be taken: perhaps one that was refused, over
//! addresses that are in use. So at first nothing new is considered. A Subnet's status names the cidrs that were followed last. It is written
//! after the ledger was told of them; and if it was never written, or is lost, those who own something are in the store: a plan that leaves
//! out any of that is refused, so the smallest that is not will do.

use std::sync::Arc;
use std::time::Duration;

use berth_api::Subnet;
use berth_api::subnet::ValidSubnet;
use berth_kit::backoff::Exponential;
use kube::ResourceExt;
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
    /// All of them, however long the store takes to answer: a Subnet that is left out could lose its addresses to another one.
    pub async fn recall(&self) {
        // A service remembers by itself.
        if self.context.allocator.is_shared() {
            return;
        }
        let mut subnets: Vec<Arc<Subnet>> = self.state().objects.values().cloned().collect();
        subnets.sort_by_key(|subnet| precedence(subnet));
        for subnet in subnets {
            let name = subnet.name_any();
            let mut failures = 0;
            while let Err(failure) = self.recall_one(&name, &subnet).await {
                warn!(subnet = name, %failure, "what it has given can't be looked for, it is tried again");
                tokio::time::sleep(AGAIN.delay(failures)).await;
                failures += 1;
            }
        }
    }

    async fn recall_one(&self, name: &str, subnet: &Subnet) -> Result<(), Failure> {
        let accepted = accepted(subnet);
        // It is not known yet, so there is nothing to be removed: this only tells whether the store has owners of it.
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
                "none of its cidrs can be followed, although addresses of it are owned: nothing keeps others from them"
            );
        }
        Ok(())
    }

    /// Whether it could be.
    pub(super) async fn restore(&self, name: &str, subnet: &Subnet, earlier: ValidSubnet) -> Result<bool, Failure> {
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
