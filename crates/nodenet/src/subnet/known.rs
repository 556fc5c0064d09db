//! What the registry knows of Subnets, and how it comes to know and to forget.

use std::time::Duration;

use berth_addr::{Counts, Plan};
use berth_api::Subnet;
use berth_api::subnet::ValidSubnet;
use berth_kit::backoff::Exponential;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use tracing::{debug, info, warn};

use super::apply::{State, Subnets};
use super::decide::{Verdict, accepted};
use super::status::torn_away;
use crate::allocator::{AllocatorError, Removal, Utilization, scarcest};
use crate::controllers::Failure;

/// After an allocator that does not answer.
const AGAIN: Exponential = Exponential {
    base: Duration::from_millis(100),
    max: Duration::from_secs(10),
};

/// What the registry was told of a subnet last, and took.
#[derive(Clone)]
pub(super) struct Known {
    pub plan: Plan,
    pub reuse_delay: Duration,
    pub object: ObjectReference,
}

impl State {
    /// Whether it is not known any more. Under the lock: whoever makes it known next finds either a
    /// task that goes on, or none and starts one.
    fn stop_to_follow(&mut self, name: &str) -> bool {
        !self.known.contains_key(name) && self.followed.remove(name)
    }
}

impl Subnets {
    /// A change that can't be leaves what is known as it is.
    pub(super) async fn make_known(
        &self,
        name: &str,
        subnet: &Subnet,
        valid: ValidSubnet,
    ) -> Result<Verdict, Failure> {
        let ValidSubnet { plan, reuse_delay, .. } = valid;
        let registry = &self.context.allocator;
        let known = self.state().known.get(name).cloned();
        let is_known = known
            .as_ref()
            .is_some_and(|known| known.plan == plan && known.reuse_delay == reuse_delay);
        // Where others can change it, it is said again: saying the same costs nothing, and what
        // they did comes out.
        if is_known && !registry.is_shared() {
            return Ok(Verdict::Ready);
        }
        let refused = match registry.set_subnet(name, &plan, reuse_delay).await {
            Ok(()) => {
                if !is_known {
                    self.learn(name, subnet, plan, reuse_delay);
                }
                return Ok(Verdict::Ready);
            }
            Err(refused) => refused,
        };
        let Some(verdict) = Verdict::of_error(&refused) else {
            return Err(refused.into());
        };
        if known.is_none()
            && let Some(accepted) = accepted(subnet)
        {
            // It was known before this process began, with other cidrs: nodes have addresses in
            // those.
            self.restore(name, subnet, accepted).await?;
        }
        Ok(verdict)
    }

    pub(super) fn learn(&self, name: &str, subnet: &Subnet, plan: Plan, reuse_delay: Duration) {
        info!(subnet = name, "subnet known");
        let known = Known {
            plan,
            reuse_delay,
            object: subnet.object_ref(&()),
        };
        let is_followed = {
            let mut state = self.state();
            state.known.insert(name.to_owned(), known);
            !self.writes() || !state.followed.insert(name.to_owned())
        };
        self.context.claims.register(name);
        if !is_followed {
            let (this, name) = (self.clone(), name.to_owned());
            self.context.spawn(async move { this.follow(&name).await });
        }
        self.look_at_refused();
    }

    /// Looks at the Subnet whenever it may be fuller or emptier than before, as long as it is
    /// known.
    async fn follow(&self, name: &str) {
        let registry = &self.context.allocator;
        // Before anything was seen: so nothing is missed between the first count and the first
        // look.
        let mut seen = Utilization::default();
        let mut failures = 0;
        loop {
            let changed = async {
                registry.changed(name, &seen).await?;
                registry.utilization(name).await
            };
            match changed.await {
                Ok(utilization) => {
                    (seen, failures) = (utilization, 0);
                    self.queue.add_after(name.to_owned(), self.until_next_write(name));
                    continue;
                }
                // Others have removed it: it is looked at, and made known again.
                Err(AllocatorError::NoSubnet { .. }) => self.queue.add(name.to_owned()),
                Err(error) => debug!(subnet = name, %error, "can't be followed, it is tried again"),
            }
            if self.state().stop_to_follow(name) {
                return;
            }
            tokio::time::sleep(AGAIN.delay(failures)).await;
            failures += 1;
        }
    }

    /// What is known of another one has changed: those that it stood in the way of may be good now.
    fn look_at_refused(&self) {
        let refused = self.state().refused.clone();
        refused.into_iter().for_each(|name| self.queue.add(name));
    }

    /// `None` for what is not known: what the registry knows under its name is another's.
    pub(super) async fn counts(&self, name: &str) -> Result<Option<Counts>, Failure> {
        if !self.state().known.contains_key(name) {
            return Ok(None);
        }
        match self.context.allocator.utilization(name).await {
            Ok(utilization) => Ok(scarcest(&utilization.families)),
            // Somebody else has removed it: it is made known again.
            Err(AllocatorError::NoSubnet { .. }) => {
                self.state().known.remove(name);
                self.queue.add(name.to_owned());
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The registry does not know it any more.
    pub(super) fn unlearn(&self, name: &str) {
        {
            let mut state = self.state();
            state.known.remove(name);
            state.written.remove(name);
            state.leaving.remove(name);
            state.refused.remove(name);
        }
        self.look_at_refused();
    }

    /// The object is gone although its finalizer should have kept it. What is owned in it stays
    /// owned, and nobody else gets it.
    pub(super) async fn forget(&self, name: &str) -> Result<(), Failure> {
        let Some(known) = self.state().known.get(name).cloned() else {
            return Ok(());
        };
        let registry = &self.context.allocator;
        let Removal::InUse { owners } = registry.remove_subnet(name).await? else {
            self.unlearn(name);
            return Ok(());
        };
        warn!(
            subnet = name,
            owners, "the Subnet is gone while addresses of it are owned"
        );
        if self.writes() {
            let note = torn_away(owners, registry.is_shared());
            self.context.warn(&known.object, "SubnetInUse", "Delete", note);
        }
        Ok(())
    }
}
