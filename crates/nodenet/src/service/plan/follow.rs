//! Brings the ledger to the document's state.
//!
//! Several changes may come as one, so the document need not be one step ahead of the ledger:
//! subnets may have handed CIDRs on to each other, also in a circle. Changes that make room go
//! first, whatever the subnet's name.

use std::collections::BTreeSet;

use berth_api::allocator::SubnetPlan;
use berth_ledger::{LedgerError, Owner};

use super::{AddressPlanError, Known, Planned, Plans};
use crate::service::name::SubnetName;

impl Known {
    /// The subnets that differ between the ledger and the document. Removed ones come first: they
    /// make room.
    fn out_of_sync(&self) -> Vec<SubnetName> {
        let (document, followed) = (&self.document.subnets, &self.followed.subnets);
        let names: BTreeSet<&SubnetName> = document.keys().chain(followed.keys()).collect();
        let differ = names
            .into_iter()
            .filter(|name| document.get(*name) != followed.get(*name));
        let mut out_of_sync: Vec<SubnetName> = differ.cloned().collect();
        out_of_sync.sort_by_key(|name| document.contains_key(name));
        out_of_sync
    }
}

/// The CIDRs that a subnet keeps from one plan to another; `None` if it keeps none. The result must
/// not be leased from: it excludes nothing.
fn common_part(from: &SubnetPlan, to: &SubnetPlan) -> Option<SubnetPlan> {
    let mut cidrs = from.cidrs.clone();
    cidrs.retain(|cidr| to.cidrs.contains(cidr));
    (!cidrs.is_empty()).then(|| SubnetPlan {
        cidrs,
        ranges: Vec::new(),
        excludes: Vec::new(),
        reservations: Vec::new(),
        ..from.clone()
    })
}

impl Plans {
    /// Reads the document and brings the ledger to its state. Returns the document's version. After
    /// an error some subnets may be up to date and others not: [`Known::check`] tells.
    pub(super) async fn catch_up(&self, known: &mut Known) -> Result<u64, AddressPlanError> {
        let (document, version) = self.read().await?;
        known.document = document;
        loop {
            let (mut moved, mut stuck) = (false, None);
            for name in known.out_of_sync() {
                match self.sync_subnet(known, &name).await {
                    Ok(()) => moved = true,
                    Err(error) => stuck = stuck.or(Some((name, error))),
                }
            }
            let Some((name, error)) = stuck else {
                return Ok(version);
            };
            if !moved && !self.make_room(known).await {
                let why = error.to_string();
                return Err(AddressPlanError::Behind { name, why });
            }
        }
    }

    /// Brings one subnet to the document's state.
    async fn sync_subnet(
        &self,
        known: &mut Known,
        name: &SubnetName,
    ) -> Result<(), AddressPlanError> {
        let Some(planned) = known.document.subnets.get(name).cloned() else {
            return self.remove_from_ledger(known, name).await;
        };
        if known.followed.subnets.contains_key(name) {
            // What other processes gave back is no longer in use, and what they leased is.
            self.ledger.refresh(name.key()).await?;
        }
        Ok(self.apply_to_ledger(known, name, planned).await?)
    }

    /// Subnets that wait for each other's CIDRs release those that they are to lose. Returns
    /// whether any did.
    async fn make_room(&self, known: &mut Known) -> bool {
        let mut made = false;
        for name in known.out_of_sync() {
            let (from, to) = (known.followed.subnets.get(&name), known.document.subnets.get(&name));
            let (Some(from), Some(to)) = (from.cloned(), to.cloned()) else {
                continue;
            };
            made |= match common_part(&from.plan, &to.plan) {
                None => self.remove_from_ledger(known, &name).await.is_ok(),
                Some(plan) if plan.cidrs.len() < from.plan.cidrs.len() => {
                    let from = Planned { plan, ..from };
                    self.apply_to_ledger(known, &name, from).await.is_ok()
                }
                Some(_) => false,
            };
        }
        made
    }

    /// Changes only the ledger. The caller writes the document.
    pub(super) async fn apply_to_ledger(
        &self,
        known: &mut Known,
        name: &SubnetName,
        planned: Planned,
    ) -> Result<(), LedgerError> {
        let Planned { plan, .. } = &planned;
        self.ledger
            .set_subnet(name.key(), &plan.plan(), plan.reuse_delay())
            .await?;
        known.followed.subnets.insert(name.clone(), planned);
        Ok(())
    }

    /// Changes only the ledger, and not if the store has somebody with an address in the subnet.
    pub(super) async fn remove_from_ledger(
        &self,
        known: &mut Known,
        name: &SubnetName,
    ) -> Result<(), AddressPlanError> {
        match self.ledger.remove_subnet(name.key()).await? {
            0 => {
                known.followed.subnets.remove(name);
                Ok(())
            }
            count => Err(not_empty(name, &self.ledger.owners(name.key()).await?, count)),
        }
    }

    /// Checks the store, and not memory alone.
    pub(super) async fn check_empty(&self, name: &SubnetName) -> Result<(), AddressPlanError> {
        self.ledger.refresh(name.key()).await?;
        let owners = self.ledger.owners(name.key()).await?;
        match owners.len() {
            0 => Ok(()),
            count => Err(not_empty(name, &owners, count)),
        }
    }
}

fn not_empty(name: &SubnetName, owners: &[Owner], count: usize) -> AddressPlanError {
    AddressPlanError::NotEmpty {
        name: name.clone(),
        owner: owners.first().map_or_else(|| "one".to_owned(), ToString::to_string),
        others: count.saturating_sub(1),
    }
}
