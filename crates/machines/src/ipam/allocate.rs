//! Asks the ledger for a machine's addresses.

use berth_addr::{Family, Prefix};
use berth_ledger::{LedgerError, Owner};

use super::Context;
use super::decide::lease_of;
use crate::failure::ReconcileError;
use crate::network::{Address, Interface, Network};
use crate::pool::Pool;

/// The result of an allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Allocation {
    Given(Network),
    /// None of these has an address left. An address of another family that was given stays the
    /// machine's, which continues with it.
    Full {
        cidrs: Vec<Prefix>,
    },
    /// There is no network to draw on.
    NoNetwork {
        why: String,
    },
    /// A Subnet is not decided on.
    NotYet,
}

impl Context {
    /// Allocates one address of each family that has networks. Asking again gives the same.
    pub(super) async fn allocate(&self, owner: &Owner) -> Result<Allocation, ReconcileError> {
        let (pools, families): (Vec<Pool>, _) = {
            let index = self.index.lock();
            (
                index.pools.in_order().into_iter().cloned().collect(),
                index.pools.families(),
            )
        };
        if !self.index.lock().pools.are_decided(&self.expected) {
            return Ok(Allocation::NotYet);
        }
        if pools.iter().all(|pool| !pool.is_usable()) || families.is_empty() {
            return Ok(Allocation::NoNetwork { why: why_not(&pools) });
        }
        let mut network = Network {
            addresses: Vec::new(),
            dns: Vec::new(),
            search: Vec::new(),
            interface: Interface::Any,
        };
        for family in families {
            let of_family: Vec<&Pool> = pools
                .iter()
                .filter(|pool| pool.is_usable() && pool.has(family))
                .collect();
            let Some((pool, unit)) = self.take(owner, &of_family, family).await? else {
                let cidrs = of_family.iter().flat_map(|pool| &pool.cidrs).copied();
                return Ok(Allocation::Full {
                    cidrs: cidrs.filter(|cidr| cidr.family() == family).collect(),
                });
            };
            let ip = unit.first();
            let Some(cidr) = pool.cidr_around(ip) else {
                // The ledger knows more of the pool than we do: what machines have there is not
                // claimed yet.
                let object = pool.name.clone();
                return Err(ReconcileError::Contended { object });
            };
            let gateway = pool.gateway_for(ip);
            network.addresses.push(Address {
                ip,
                length: cidr.length(),
                gateway,
            });
            for dns in &pool.dns {
                if !network.dns.contains(dns) {
                    network.dns.push(*dns);
                }
            }
        }
        Ok(Allocation::Given(network))
    }

    /// Takes an address from the first pool that has one left. An address that the owner has
    /// already comes first: it may have been leased before a crash, from a pool that is not the
    /// first.
    async fn take<'a>(
        &self,
        owner: &Owner,
        pools: &[&'a Pool],
        family: Family,
    ) -> Result<Option<(&'a Pool, Prefix)>, ReconcileError> {
        for pool in pools {
            let held = self.ledger.held(&pool.name, owner).await?;
            let units = held.iter().flat_map(|lease| &lease.units);
            if let Some(unit) = units.into_iter().find(|unit| unit.family() == family) {
                return Ok(Some((pool, *unit)));
            }
        }
        for pool in pools {
            if let Some(unit) = self.lease(owner, &pool.name, family).await? {
                return Ok(Some((pool, unit)));
            }
        }
        Ok(None)
    }

    async fn lease(
        &self,
        owner: &Owner,
        pool: &str,
        family: Family,
    ) -> Result<Option<Prefix>, ReconcileError> {
        self.ensure_claimed(pool).await?;
        let ask = || {
            self.ledger
                .lease(pool, owner, vec![lease_of(owner)], Some(vec![family]))
        };
        let grant = match ask().await {
            Err(LedgerError::Unclaimed { .. }) => {
                self.mark_unclaimed(pool);
                self.ensure_claimed(pool).await?;
                ask().await?
            }
            grant => grant?,
        };
        let units = grant.leases.into_iter().flat_map(|lease| lease.units);
        Ok(units.into_iter().find(|unit| unit.family() == family))
    }
}

fn why_not(pools: &[Pool]) -> String {
    if pools.is_empty() {
        return "there is no Subnet for machines: give --network, or label one".to_owned();
    }
    let names: Vec<&str> = pools.iter().map(|pool| pool.name.as_str()).collect();
    format!(
        "no Subnet for machines is ready: see the conditions of {}",
        names.join(", ")
    )
}
