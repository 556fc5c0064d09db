//! What the ledger knows of Subnets, and how it comes to know and to forget.

use std::collections::BTreeMap;
use std::time::Duration;

use berth_addr::{Counts, Family, Plan};
use berth_api::Subnet;
use berth_api::subnet::ValidSubnet;
use berth_ledger::{Ledger, LedgerError};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;
use tracing::{info, warn};

use super::apply::Subnets;
use super::decide::{Verdict, earlier_plans, has_served};
use crate::controllers::Failure;

/// What the ledger was told of a subnet last, and took.
#[derive(Clone)]
pub(super) struct Known {
    pub plan: Plan,
    pub reuse_delay: Duration,
    pub object: ObjectReference,
}

impl Subnets {
    /// A change that can't be leaves what is known as it is.
    pub(super) async fn make_known(
        &self,
        name: &str,
        subnet: &Subnet,
        ledger: &Ledger,
        valid: ValidSubnet,
    ) -> Result<Verdict, Failure> {
        let ValidSubnet { plan, reuse_delay, .. } = valid;
        let known = self.state().known.get(name).cloned();
        if known
            .as_ref()
            .is_some_and(|known| known.plan == plan && known.reuse_delay == reuse_delay)
        {
            return Ok(Verdict::Ready);
        }
        let refused = match ledger.set_subnet(name, &plan, reuse_delay).await {
            Ok(()) => {
                self.learn(name, subnet, ledger, plan, reuse_delay).await;
                return Ok(Verdict::Ready);
            }
            Err(refused) => refused,
        };
        let Some(verdict) = Verdict::of_error(&refused) else {
            return Err(refused.into());
        };
        if known.is_none() && has_served(subnet) {
            // It was known before this process began, with fewer cidrs: nodes have addresses in those.
            for earlier in earlier_plans(&plan) {
                if ledger.set_subnet(name, &earlier, reuse_delay).await.is_ok() {
                    self.learn(name, subnet, ledger, earlier, reuse_delay).await;
                    break;
                }
            }
        }
        Ok(verdict)
    }

    async fn learn(&self, name: &str, subnet: &Subnet, ledger: &Ledger, plan: Plan, reuse_delay: Duration) {
        info!(subnet = name, "known to the ledger");
        let known = Known {
            plan,
            reuse_delay,
            object: subnet.object_ref(&()),
        };
        let is_new = self.state().known.insert(name.to_owned(), known).is_none();
        if is_new
            && self.writes()
            && let Some(mut outlook) = ledger.outlook(name).await
        {
            let (this, name) = (self.clone(), name.to_owned());
            self.context.spawn(async move {
                while outlook.changed().await.is_ok() {
                    this.queue.add_after(name.clone(), this.until_next_write(&name));
                }
            });
        }
        self.look_at_refused();
    }

    /// What is known of another one has changed: those that it stood in the way of may be good now.
    fn look_at_refused(&self) {
        let refused = self.state().refused.clone();
        refused.into_iter().for_each(|name| self.queue.add(name));
    }

    /// How many own something. None where the ledger does not know the subnet: it has given nothing.
    pub(super) async fn owners(&self, name: &str, ledger: &Ledger) -> Result<usize, Failure> {
        let owners = async {
            ledger.refresh(name).await?;
            ledger.owners(name).await
        };
        match owners.await {
            Ok(owners) => Ok(owners.len()),
            Err(LedgerError::NoSubnet { .. }) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn counts(
        &self,
        name: &str,
        ledger: &Ledger,
    ) -> Result<Option<BTreeMap<Family, Counts>>, Failure> {
        match ledger.owners(name).await {
            Err(LedgerError::NoSubnet { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        let outlook = ledger.outlook(name).await;
        Ok(outlook.map(|outlook| outlook.borrow().counts.clone()))
    }

    pub(super) async fn drop_from(&self, ledger: &Ledger, name: &str) {
        ledger.remove_subnet(name).await;
        {
            let mut state = self.state();
            state.known.remove(name);
            state.written.remove(name);
            state.leaving.remove(name);
            state.refused.remove(name);
        }
        self.look_at_refused();
    }

    /// The object is gone although its finalizer should have kept it. What is owned in it stays owned: as long as this process runs, nobody
    /// else gets it.
    pub(super) async fn forget(&self, name: &str, ledger: &Ledger) -> Result<(), Failure> {
        let Some(known) = self.state().known.get(name).cloned() else {
            return Ok(());
        };
        let owners = self.owners(name, ledger).await?;
        if owners == 0 {
            self.drop_from(ledger, name).await;
            return Ok(());
        }
        warn!(
            subnet = name,
            owners, "the Subnet is gone while addresses of it are owned"
        );
        if !self.writes() {
            return Ok(());
        }
        let note = format!(
            "it was removed although {owners} own addresses in it: they keep them. Create it again with the same cidrs, else nothing keeps a new \
             Subnet from having the same addresses once this controller is started again"
        );
        self.context.warn(&known.object, "SubnetInUse", "Delete", note);
        Ok(())
    }
}
