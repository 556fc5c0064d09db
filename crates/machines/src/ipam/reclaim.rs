//! Takes back addresses of machines that went without their finalizer: somebody took it off, or
//! the Machine was lost with the API server's store.
//!
//! Two checks must agree over a grace period: no watch shows a Machine of that UID, and at the end
//! the API server confirms it.

use berth_kit::api_error::is_not_found;
use berth_ledger::{Kind, Owner};
use kube::core::DynamicObject;
use kube::{Api, Resource, ResourceExt};
use tracing::{info, warn};

use super::Context;
use crate::failure::ReconcileError;
use crate::machine::Shape;
use crate::suspects::{RECLAIM_INTERVAL, Suspects};

impl Context {
    pub(super) async fn reclaim(&self) {
        let mut suspects = Suspects::new(Kind::Machine, &self.cluster, self.grace);
        loop {
            if let Err(error) = self.reclaim_due(&mut suspects).await {
                warn!(%error, "cannot take back addresses of Machines that are gone; retrying");
            }
            tokio::time::sleep(RECLAIM_INTERVAL).await;
        }
    }

    async fn reclaim_due(&self, suspects: &mut Suspects) -> Result<(), ReconcileError> {
        let due = suspects.observe(&self.ledger, |owner| self.looks_gone(owner)).await?;
        for place in due {
            let (subnet, owner) = &place;
            if self.is_gone(owner).await? && self.looks_gone(owner) {
                self.take_back(subnet, owner).await?;
            }
            suspects.forget(&place);
        }
        Ok(())
    }

    fn looks_gone(&self, owner: &Owner) -> bool {
        self.index.lock().with_uid(owner.uid()).is_none()
    }

    /// Whether the Machine is gone, according to the API server. A shape that it does not serve has
    /// no Machines.
    async fn is_gone(&self, owner: &Owner) -> Result<bool, ReconcileError> {
        for shape in Shape::ALL {
            let resource = shape.resource();
            let api: Api<DynamicObject> = match owner.namespace() {
                "" => Api::all_with(self.client.clone(), &resource),
                namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
            };
            match api.get(owner.name()).await {
                Ok(found) if found.uid().as_deref() == Some(owner.uid()) => return Ok(false),
                Err(error) if !is_not_found(&error) => return Err(error.into()),
                _ => {}
            }
        }
        Ok(true)
    }

    async fn take_back(&self, subnet: &str, owner: &Owner) -> Result<(), ReconcileError> {
        let released = self.ledger.release(subnet, owner, None).await?;
        let count: usize = released.iter().map(|lease| lease.units.len()).sum();
        self.metrics.reclaimed.inc_by(count as u64);
        info!(subnet, %owner, count, "took back addresses of a Machine that is gone");
        let api: Api<berth_api::Subnet> = Api::all(self.client.clone());
        if let Some(object) = api.get_opt(subnet).await? {
            let note = format!(
                "took back {count} of {owner}: there has been no such Machine for {} s",
                self.grace.as_secs()
            );
            self.background
                .warn(&object.object_ref(&()), "Reclaimed", "Reclaim", note);
        }
        Ok(())
    }
}
