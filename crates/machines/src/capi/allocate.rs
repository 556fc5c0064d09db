//! Asks the ledger for a claim's address.

use std::net::IpAddr;

use berth_addr::Family;
use berth_ledger::{LeaseId, LedgerError, Owner};
use uuid::Uuid;

use super::Context;
use super::decide::{ALLOCATION_FAILED, POOL_EXHAUSTED};
use super::objects::Claim;
use crate::failure::ReconcileError;
use crate::pool::Pool;

/// An address, or the contract's reason and why.
pub(super) type Allocation = Result<IpAddr, (&'static str, String)>;

/// One lease for each owner: asking again, after any crash, finds the same address.
pub(super) fn lease_of(owner: &Owner) -> LeaseId {
    Uuid::new_v5(&Uuid::NAMESPACE_OID, owner.as_str().as_bytes())
}

impl Context {
    pub(super) async fn allocate(
        &self,
        claim: &Claim,
        name: &str,
        pool: &Pool,
    ) -> Result<Allocation, ReconcileError> {
        let asked = match claim.asks_for() {
            Ok(asked) => asked,
            Err(why) => return Ok(Err((ALLOCATION_FAILED, why))),
        };
        let family = match family(claim, pool, asked) {
            Ok(family) => family,
            Err(why) => return Ok(Err((ALLOCATION_FAILED, why))),
        };
        self.ensure_claimed(name).await?;
        let owner = claim.owner(&self.cluster)?;
        let held = self.ledger.held(name, &owner).await?;
        if let Some(unit) = held.iter().flat_map(|lease| &lease.units).next() {
            return Ok(Ok(unit.first()));
        }
        match asked {
            Some(address) => self.take_this(name, pool, &owner, address).await,
            None => self.take_any(name, pool, &owner, family).await,
        }
    }

    async fn take_any(
        &self,
        name: &str,
        pool: &Pool,
        owner: &Owner,
        family: Family,
    ) -> Result<Allocation, ReconcileError> {
        let ask = || {
            self.ledger
                .lease(name, owner, vec![lease_of(owner)], Some(vec![family]))
        };
        let grant = match ask().await {
            Err(LedgerError::Unclaimed { .. }) => {
                self.mark_unclaimed(name);
                self.ensure_claimed(name).await?;
                ask().await?
            }
            grant => grant?,
        };
        let unit = grant.leases.into_iter().flat_map(|lease| lease.units).next();
        Ok(unit.map(|unit| unit.first()).ok_or_else(|| {
            let cidrs: Vec<String> = pool.cidrs.iter().map(ToString::to_string).collect();
            (
                POOL_EXHAUSTED,
                format!("Subnet {name} has no {family} address left in {}", cidrs.join(", ")),
            )
        }))
    }

    async fn take_this(
        &self,
        name: &str,
        pool: &Pool,
        owner: &Owner,
        address: IpAddr,
    ) -> Result<Allocation, ReconcileError> {
        if !pool.contains(address) {
            let why = format!("the requested address {address} is not in Subnet {name}");
            return Ok(Err((ALLOCATION_FAILED, why)));
        }
        let claimed = self
            .ledger
            .claim(name, owner, lease_of(owner), vec![address.into()])
            .await?;
        Ok(claimed.map(|()| address).map_err(|refusal| {
            (
                ALLOCATION_FAILED,
                format!("the requested address {address} is not available: {}", refusal.error),
            )
        }))
    }
}

/// The family of the address: IPv4 if nothing else is requested and the Subnet has it.
fn family(claim: &Claim, pool: &Pool, asked: Option<IpAddr>) -> Result<Family, String> {
    let has = |family: Family| pool.cidrs.iter().any(|cidr| cidr.family() == family);
    let of_address = asked.map(|address| if address.is_ipv4() { Family::V4 } else { Family::V6 });
    let said = claim.family()?;
    let family = match (of_address, said) {
        (Some(one), Some(other)) if one != other => {
            return Err(format!("the requested address is not of family {other}"));
        }
        (Some(family), _) | (None, Some(family)) => family,
        (None, None) if has(Family::V4) => Family::V4,
        (None, None) => Family::V6,
    };
    if has(family) {
        return Ok(family);
    }
    Err(format!("the Subnet has no {family} addresses"))
}
