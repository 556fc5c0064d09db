//! Changes of the plan that callers of this process request.
//!
//! Why no address in use leaves the plan: the store is checked for them before the document is
//! written, and again after it. The first check refuses an invalid change before others see it; the
//! second finds what another process has leased meanwhile. After the write others lease nothing
//! more by the old plan, see [`Plans::confirm`].

use berth_addr::Prefix;
use berth_api::allocator::SubnetPlan;
use berth_ledger::LedgerError;
use tracing::warn;

use super::{AddressPlan, AddressPlanError, Known, Planned, Plans};
use crate::service::name::SubnetName;

/// The plan after the change; `None` if it is as requested already.
fn planned(
    plan: &AddressPlan,
    name: &SubnetName,
    caller: &str,
    requested: &SubnetPlan,
) -> Result<Option<AddressPlan>, AddressPlanError> {
    match plan.subnets.get(name) {
        // Clusters that share a subnet all register it, and then agree.
        Some(there) if there.plan == *requested => return Ok(None),
        Some(there) if there.cluster != caller => {
            return Err(registered_by_another(name, there, caller));
        }
        _ => {}
    }
    let mut next = plan.clone();
    let entry = Planned {
        cluster: caller.to_owned(),
        plan: requested.clone(),
    };
    next.subnets.insert(name.clone(), entry);
    Ok(Some(next))
}

/// The plan without the subnet, and the subnet's present entry.
fn without(
    plan: &AddressPlan,
    name: &SubnetName,
    caller: &str,
) -> Result<(AddressPlan, Planned), AddressPlanError> {
    let mut next = plan.clone();
    match next.subnets.remove(name) {
        None => Err(AddressPlanError::NoSubnet { name: name.clone() }),
        Some(there) if there.cluster != caller => Err(registered_by_another(name, &there, caller)),
        Some(there) => Ok((next, there)),
    }
}

fn registered_by_another(name: &SubnetName, there: &Planned, caller: &str) -> AddressPlanError {
    AddressPlanError::RegisteredByAnother {
        name: name.clone(),
        maker: there.cluster.clone(),
        caller: caller.to_owned(),
    }
}

/// Whether the change from one plan to the other may take away a part of the subnet. More CIDRs
/// alone take nothing away.
fn leaves_out(from: &SubnetPlan, to: &SubnetPlan) -> bool {
    let with_all_cidrs = SubnetPlan {
        cidrs: to.cidrs.clone(),
        reuse_delay_milliseconds: to.reuse_delay_milliseconds,
        ..from.clone()
    };
    with_all_cidrs != *to || from.cidrs.iter().any(|cidr| !to.cidrs.contains(cidr))
}

/// All CIDRs of both plans, with nothing excluded: what any process can have leased that knows the
/// one or the other.
fn combined(one: &SubnetPlan, other: &SubnetPlan) -> SubnetPlan {
    let all = || one.cidrs.iter().chain(&other.cidrs);
    let mut cidrs: Vec<Prefix> = Vec::new();
    for cidr in all() {
        let in_wider = all()
            .any(|wider| wider != cidr && wider.overlaps(*cidr) && wider.length() < cidr.length());
        if !in_wider && !cidrs.contains(cidr) {
            cidrs.push(*cidr);
        }
    }
    SubnetPlan {
        cidrs,
        ranges: Vec::new(),
        excludes: Vec::new(),
        reservations: Vec::new(),
        ..one.clone()
    }
}

impl Plans {
    /// Registers a subnet or changes it, by the rules of [`berth_ledger::Ledger::set_subnet`].
    pub async fn set(
        &self,
        name: &SubnetName,
        caller: &str,
        requested: &SubnetPlan,
    ) -> Result<(), AddressPlanError> {
        // Controllers register again at each start: that must hold up nobody.
        if self.settled().await.has(name, requested) {
            return Ok(());
        }
        let mut known = self.known.write().await;
        loop {
            let version = self.catch_up(&mut known).await?;
            let Some(next) = planned(&known.document, name, caller, requested)? else {
                return Ok(());
            };
            let before = known.followed.subnets.get(name).cloned();
            if before.is_some() {
                // What other processes have leased is in use, too.
                self.ledger.refresh(name.key()).await?;
            }
            let planned = Planned {
                cluster: caller.to_owned(),
                plan: requested.clone(),
            };
            self.apply_to_ledger(&mut known, name, planned).await?;
            match self.keep(&next, version).await {
                Ok(true) => {
                    known.document = next;
                    return match before {
                        Some(before) => self.recheck_in_use(&mut known, name, before).await,
                        None => Ok(()),
                    };
                }
                // Another process has changed the plan: try again from the present one.
                Ok(false) => self.restore(&mut known, name, before).await,
                Err(error) => {
                    self.restore(&mut known, name, before).await;
                    return Err(error.into());
                }
            }
        }
    }

    /// Removes a subnet in which nobody has anything.
    pub async fn remove(&self, name: &SubnetName, caller: &str) -> Result<(), AddressPlanError> {
        let mut known = self.known.write().await;
        loop {
            let version = self.catch_up(&mut known).await?;
            let (next, before) = without(&known.document, name, caller)?;
            self.check_empty(name).await?;
            if self.keep(&next, version).await? {
                known.document = next;
                let forgotten = self.remove_from_ledger(&mut known, name).await;
                if forgotten.is_err() {
                    self.revert_document(&mut known, name, before).await?;
                }
                return forgotten;
            }
        }
    }

    /// Call this after the document has another plan for the subnet: it checks whether somebody got
    /// an address just before that is not in the new plan.
    async fn recheck_in_use(
        &self,
        known: &mut Known,
        name: &SubnetName,
        before: Planned,
    ) -> Result<(), AddressPlanError> {
        let Some(now) = known.followed.subnets.get(name).cloned() else {
            return Ok(());
        };
        if !leaves_out(&before.plan, &now.plan) {
            return Ok(());
        }
        let either = Planned {
            plan: combined(&before.plan, &now.plan),
            ..now.clone()
        };
        let looked = async {
            self.apply_to_ledger(known, name, either).await?;
            self.ledger.refresh(name.key()).await?;
            self.apply_to_ledger(known, name, now).await
        };
        let looked = looked.await;
        if looked.is_err() {
            self.revert_document(known, name, before).await?;
            self.catch_up(known).await?;
        }
        Ok(looked?)
    }

    /// Writes the earlier plan to the document, unless somebody has changed the subnet since.
    async fn revert_document(
        &self,
        known: &mut Known,
        name: &SubnetName,
        before: Planned,
    ) -> Result<(), AddressPlanError> {
        let ours = known.document.subnets.get(name).cloned();
        loop {
            let (mut document, version) = self.read().await?;
            if document.subnets.get(name) != ours.as_ref() {
                return Ok(());
            }
            document.check_room(name, &before.plan)?;
            document.subnets.insert(name.clone(), before.clone());
            if self.keep(&document, version).await? {
                warn!(
                    subnet = %name,
                    "a change of the subnet failed after it was saved; saved its earlier plan \
                     again"
                );
                known.document = document;
                return Ok(());
            }
        }
    }

    /// Restores the ledger. Nothing was leased from the plan that is taken back: nobody was served
    /// meanwhile.
    async fn restore(&self, known: &mut Known, name: &SubnetName, before: Option<Planned>) {
        let Some(before) = before else {
            self.ledger.forget_subnet(name.key()).await;
            known.followed.subnets.remove(name);
            return;
        };
        if let Err(error) = self.apply_to_ledger(known, name, before).await {
            warn!(
                %error,
                subnet = %name,
                "a change of the subnet was not saved, and cannot be undone in the ledger"
            );
        }
    }
}

impl Known {
    /// Whether it is registered as requested.
    fn has(&self, name: &SubnetName, requested: &SubnetPlan) -> bool {
        let there = self.document.subnets.get(name);
        there.is_some_and(|there| there.plan == *requested) && self.check(name).is_ok()
    }
}

impl AddressPlan {
    /// Whether a subnet can have this plan beside all others.
    fn check_room(&self, name: &SubnetName, plan: &SubnetPlan) -> Result<(), AddressPlanError> {
        for (other, planned) in self.subnets.iter().filter(|(other, _)| *other != name) {
            let theirs = &planned.plan.cidrs;
            if let Some(cidr) = plan
                .cidrs
                .iter()
                .find(|cidr| theirs.iter().any(|one| one.overlaps(**cidr)))
            {
                return Err(AddressPlanError::Ledger(LedgerError::Overlap {
                    subnet: name.to_string(),
                    other: other.to_string(),
                    range: cidr.to_string(),
                }));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(cidrs: &[&str]) -> SubnetPlan {
        let wire = serde_json::json!({"cidrs": cidrs, "reuseDelayMilliseconds": 0});
        serde_json::from_value(wire).unwrap()
    }

    #[test]
    fn more_cidrs_leave_nothing_out_and_anything_else_may() {
        let narrow = plan(&["10.0.0.0/24"]);
        let wide = plan(&["10.0.0.0/24", "10.1.0.0/24"]);
        let mut without_one = wide.clone();
        without_one.excludes = vec!["10.0.0.7".parse().unwrap()];
        assert!(!leaves_out(&narrow, &wide));
        assert!(leaves_out(&wide, &narrow));
        assert!(leaves_out(&narrow, &plan(&["10.0.0.0/23"])));
        assert!(leaves_out(&wide, &without_one));
    }

    #[test]
    fn all_of_two_plans_is_laid_out_without_overlap() {
        let one = plan(&["10.0.0.0/24", "10.2.0.0/16"]);
        let other = plan(&["10.0.0.0/16", "10.1.0.0/24", "10.2.3.0/24"]);
        let all = combined(&one, &other);
        assert_eq!(all, plan(&["10.2.0.0/16", "10.0.0.0/16", "10.1.0.0/24"]));
        all.plan().layouts().unwrap();
    }
}
