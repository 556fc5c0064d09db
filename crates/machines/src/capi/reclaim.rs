//! Takes back addresses of claims whose deletion nobody observed, after a grace period and two
//! checks: no watch shows a claim of that UID nor an IPAddress of its name, and at the end the API
//! server confirms it.

use berth_kit::watch::Key;
use berth_ledger::{Kind, Owner};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use tracing::{info, warn};

use super::Context;
use crate::failure::ReconcileError;
use crate::suspects::{RECLAIM_INTERVAL, Suspects};

impl Context {
    pub(super) async fn reclaim(&self) {
        let mut suspects = Suspects::new(Kind::Claim, &self.cluster, self.grace);
        loop {
            if let Err(error) = self.reclaim_due(&mut suspects).await {
                warn!(
                    %error,
                    "cannot take back addresses of IPAddressClaims that are gone; retrying"
                );
            }
            tokio::time::sleep(RECLAIM_INTERVAL).await;
        }
    }

    async fn reclaim_due(&self, suspects: &mut Suspects) -> Result<(), ReconcileError> {
        let due = suspects.observe(&self.ledger, |owner| self.looks_gone(owner)).await?;
        for place in due {
            let (subnet, owner) = &place;
            if self.is_gone(owner).await? && self.looks_gone(owner) {
                let released = self.ledger.release(subnet, owner, None).await?;
                let units = released.iter().flat_map(|lease| &lease.units);
                self.metrics.reclaimed.inc_by(units.count() as u64);
                info!(subnet, %owner, "took back addresses of an IPAddressClaim that is gone");
            }
            suspects.forget(&place);
        }
        Ok(())
    }

    fn looks_gone(&self, owner: &Owner) -> bool {
        let name = Key {
            namespace: owner.namespace().to_owned(),
            name: owner.name().to_owned(),
        };
        let index = self.index.lock();
        !index.has_claim(owner.uid()) && !index.addresses.contains_key(&name)
    }

    async fn is_gone(&self, owner: &Owner) -> Result<bool, ReconcileError> {
        let api = |resource| -> Api<DynamicObject> {
            Api::namespaced_with(self.client.clone(), owner.namespace(), resource)
        };
        let claim = api(&self.served.claims).get_opt(owner.name()).await?;
        let address = api(&self.served.addresses).get_opt(owner.name()).await?;
        let same = claim.is_some_and(|claim| claim.uid().as_deref() == Some(owner.uid()));
        Ok(!same && address.is_none())
    }
}
