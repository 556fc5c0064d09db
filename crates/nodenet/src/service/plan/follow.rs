//! From the document to the ledger.
//!
//! Several changes may come as one, so what is in the document now need not be one step from what
//! the ledger has: subnets may have handed CIDRs on to each other, also in a circle. What makes
//! room goes first, whatever its name.

use std::collections::BTreeSet;

use berth_api::allocator::SubnetPlan;
use berth_ledger::{LedgerError, Owner};

use super::{AddressPlanError, Known, Planned, Plans};
use crate::service::name::SubnetName;

impl Known {
    /// Those that the ledger has otherwise than the document. Those that go come first: they make
    /// room.
    fn behind(&self) -> Vec<SubnetName> {
        let (document, followed) = (&self.document.subnets, &self.followed.subnets);
        let names: BTreeSet<&SubnetName> = document.keys().chain(followed.keys()).collect();
        let differ = names
            .into_iter()
            .filter(|name| document.get(*name) != followed.get(*name));
        let mut behind: Vec<SubnetName> = differ.cloned().collect();
        behind.sort_by_key(|name| document.contains_key(name));
        behind
    }
}

/// What a subnet keeps on its way from one plan to another; `None` when it keeps nothing. Not to be
/// leased from: nothing is kept out of it.
fn kept(from: &SubnetPlan, to: &SubnetPlan) -> Option<SubnetPlan> {
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
    /// Brings what is known, and the ledger, to where the document is. Gives the document's
    /// version. On an error some subnets may have been brought there and others not:
    /// [`Known::check`] tells.
    pub(super) async fn catch_up(&self, known: &mut Known) -> Result<u64, AddressPlanError> {
        let (document, version) = self.read().await?;
        known.document = document;
        loop {
            let (mut moved, mut stuck) = (false, None);
            for name in known.behind() {
                match self.bring(known, &name).await {
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

    /// One subnet to where the document has it.
    async fn bring(&self, known: &mut Known, name: &SubnetName) -> Result<(), AddressPlanError> {
        let Some(planned) = known.document.subnets.get(name).cloned() else {
            return self.forget(known, name).await;
        };
        if known.followed.subnets.contains_key(name) {
            // What others gave back is not in use any more, and what they leased is.
            self.ledger.refresh(name.key()).await?;
        }
        Ok(self.apply(known, name, planned).await?)
    }

    /// Subnets that wait for each other's CIDRs let go of those that they are to lose. Whether any
    /// did.
    async fn make_room(&self, known: &mut Known) -> bool {
        let mut made = false;
        for name in known.behind() {
            let (from, to) = (known.followed.subnets.get(&name), known.document.subnets.get(&name));
            let (Some(from), Some(to)) = (from.cloned(), to.cloned()) else {
                continue;
            };
            made |= match kept(&from.plan, &to.plan) {
                None => self.forget(known, &name).await.is_ok(),
                Some(plan) if plan.cidrs.len() < from.plan.cidrs.len() => {
                    let from = Planned { plan, ..from };
                    self.apply(known, &name, from).await.is_ok()
                }
                Some(_) => false,
            };
        }
        made
    }

    /// In the ledger. The document is the caller's concern.
    pub(super) async fn apply(
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

    /// In the ledger, unless somebody has something in the subnet by what the store has now.
    pub(super) async fn forget(
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

    /// In the store, and not in memory alone.
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
