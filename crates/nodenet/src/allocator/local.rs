//! The allocator in this process, over a ledger.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_addr::{Plan, Prefix};
use berth_api::{LeaseOf, lease_name};
use berth_ledger::{
    Claim, Claimed, Lease, LeaseId, Ledger, LedgerError, Outlook, Owner, Refusal, Tenure,
};
use uuid::Uuid;

use super::{
    Allocator, AllocatorError, Answer, Container, ContainerRef, PodCidrs, Registry, Removal,
    Secondary, SubnetCounts, Update,
};

/// Two requests for one container must not run at once in one process: they would count from the
/// same number and lease twice as many. That would be too many addresses for one node, never one
/// address for two. Callers keep requests of one node in order, as the work queue does.
#[derive(Clone, Debug)]
pub struct LocalAllocator {
    ledger: Ledger,
}

impl LocalAllocator {
    pub fn new(ledger: Ledger) -> Self {
        Self { ledger }
    }

    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    async fn container(
        &self,
        subnet: &str,
        container: &ContainerRef,
        short: usize,
    ) -> Result<Container, AllocatorError> {
        let primary = self.ledger.held(subnet, &container.primary()?).await?;
        let secondaries = self.ledger.held(subnet, &container.secondary()?).await?;
        let mut secondaries: Vec<Secondary> =
            secondaries.into_iter().map(Secondary::from).collect();
        secondaries.sort_by(|one, other| one.units.cmp(&other.units));
        Ok(Container {
            id: container.id(),
            subnet: subnet.to_owned(),
            primary: primary.into_iter().flat_map(|lease| lease.units).collect(),
            secondaries,
            short,
        })
    }

    async fn make(
        &self,
        subnet: &str,
        container: &ContainerRef,
    ) -> Result<Container, AllocatorError> {
        // The container's id is also the lease's id, so repeated requests make only one lease.
        let grant = self
            .ledger
            .lease(subnet, &container.primary()?, vec![container.id()], None)
            .await?;
        if grant.short > 0 {
            let subnet = subnet.to_owned();
            return Err(AllocatorError::SubnetFull { subnet });
        }
        self.container(subnet, container, 0).await
    }

    async fn change(
        &self,
        subnet: &str,
        container: &ContainerRef,
        update: Update,
    ) -> Result<Container, AllocatorError> {
        let owner = container.secondary()?;
        if !update.give_back.is_empty() {
            self.ledger.release(subnet, &owner, Some(update.give_back)).await?;
        }
        let held = self.ledger.held(subnet, &owner).await?;
        let missing = missing(&held, update.request, update.count);
        let short = if missing.is_empty() {
            0
        } else {
            self.ledger.lease(subnet, &owner, missing, None).await?.short
        };
        self.container(subnet, container, short).await
    }

    async fn remove(&self, subnet: &str) -> Result<Removal, AllocatorError> {
        // This includes a subnet that is no longer registered: its leases are still in the store.
        match self.ledger.remove_subnet(subnet).await? {
            0 => Ok(Removal::Removed),
            owners => Ok(Removal::InUse { owners }),
        }
    }
}

/// The leases to ask for. They include those of an earlier attempt of the same request, whether
/// that got them or not.
fn missing(held: &[Lease], request: Uuid, count: usize) -> Vec<LeaseId> {
    let name = |number| lease_name(LeaseOf::Request { request, number });
    let names: Vec<LeaseId> = (0..count).map(name).collect();
    let of_request: BTreeSet<&LeaseId> = names.iter().collect();
    let others = held.iter().filter(|lease| !of_request.contains(&lease.id)).count();
    let needed = count.saturating_sub(others);
    // All that are held of this request first: a part of an earlier attempt may have been given
    // back since.
    names.into_iter().take(needed).collect()
}

impl Registry for LocalAllocator {
    fn is_shared(&self) -> bool {
        false
    }

    fn require_claims(&self, cluster: &str) {
        self.ledger.require_claims(cluster);
    }

    fn begin_epoch(&self) -> Answer<'_, u64> {
        Box::pin(async { Ok(self.ledger.begin_epoch().await?) })
    }

    fn unregister_all_but<'a>(&'a self, names: &'a BTreeSet<String>) -> Answer<'a, ()> {
        Box::pin(async move { Ok(self.ledger.unregister_all_but(names).await?) })
    }

    fn subnets(&self) -> Answer<'_, Vec<String>> {
        Box::pin(async { Ok(self.ledger.subnets().await) })
    }

    fn set_subnet<'a>(
        &'a self,
        subnet: &'a str,
        plan: &'a Plan,
        reuse_delay: Duration,
    ) -> Answer<'a, ()> {
        Box::pin(async move { Ok(self.ledger.set_subnet(subnet, plan, reuse_delay).await?) })
    }

    fn remove_subnet<'a>(&'a self, subnet: &'a str) -> Answer<'a, Removal> {
        Box::pin(self.remove(subnet))
    }

    fn owners<'a>(&'a self, subnet: &'a str, cluster: &'a str) -> Answer<'a, Vec<Owner>> {
        Box::pin(async move {
            let mut owners = self.ledger.owners(subnet).await?;
            owners.retain(|owner| owner.cluster() == cluster);
            Ok(owners)
        })
    }

    fn held<'a>(&'a self, subnet: &'a str, owner: &'a Owner) -> Answer<'a, Vec<Lease>> {
        Box::pin(async move { Ok(self.ledger.held(subnet, owner).await?) })
    }

    fn take_back<'a>(
        &'a self,
        subnet: &'a str,
        owner: &'a Owner,
        leases: Vec<LeaseId>,
    ) -> Answer<'a, usize> {
        Box::pin(async move {
            let back = self.ledger.release(subnet, owner, Some(leases)).await?;
            Ok(back.iter().map(|lease| lease.units.len()).sum())
        })
    }

    fn restore<'a>(&'a self, subnet: &'a str, claims: Vec<Claim>) -> Answer<'a, Vec<Claimed>> {
        Box::pin(async move { Ok(self.ledger.restore(subnet, claims).await?) })
    }

    fn generation<'a>(&'a self, subnet: &'a str, cluster: &'a str) -> Answer<'a, u64> {
        Box::pin(async move { Ok(self.ledger.gate(subnet, cluster).await?) })
    }

    fn open_gate<'a>(
        &'a self,
        subnet: &'a str,
        cluster: &'a str,
        generation: u64,
    ) -> Answer<'a, bool> {
        Box::pin(async move { Ok(self.ledger.open_gate(subnet, cluster, generation).await?) })
    }

    fn lost<'a>(&'a self, subnet: &'a str, cluster: &'a str, generation: u64) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut outlook = self.ledger.outlook(subnet).await.ok_or_else(|| none(subnet))?;
            let other = |outlook: &Outlook| {
                outlook.generations.get(cluster).is_some_and(|now| *now != generation)
            };
            outlook.wait_for(other).await.map(drop).map_err(|_| none(subnet))
        })
    }

    fn changed<'a>(&'a self, subnet: &'a str, seen: &'a SubnetCounts) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut outlook = self.ledger.outlook(subnet).await.ok_or_else(|| none(subnet))?;
            let other = outlook
                .wait_for(|outlook| outlook.counts != seen.families || outlook.freed != seen.freed);
            other.await.map(drop).map_err(|_| none(subnet))
        })
    }
}

impl PodCidrs for LocalAllocator {
    fn serves_pod_cidrs(&self) -> bool {
        true
    }

    fn lease_pod_cidrs<'a>(
        &'a self,
        subnet: &'a str,
        container: &'a ContainerRef,
    ) -> Answer<'a, Vec<Prefix>> {
        Box::pin(async move {
            let owner = container.node_cidr()?;
            let lease = container.pod_cidrs_lease();
            let grant = self.ledger.lease(subnet, &owner, vec![lease], None).await?;
            Ok(grant.leases.into_iter().flat_map(|lease| lease.units).collect())
        })
    }

    fn claim_pod_cidr<'a>(
        &'a self,
        subnet: &'a str,
        container: &'a ContainerRef,
        cidr: Prefix,
        units: Vec<Prefix>,
    ) -> Answer<'a, Result<(), Refusal>> {
        Box::pin(async move {
            let owner = container.node_cidr()?;
            let nc = container.id();
            let lease = lease_name(LeaseOf::PodCidr { nc, cidr });
            Ok(self.ledger.claim(subnet, &owner, lease, units).await?)
        })
    }

    fn owner_of<'a>(&'a self, subnet: &'a str, unit: Prefix) -> Answer<'a, Option<Tenure>> {
        Box::pin(async move { Ok(self.ledger.owner_of(subnet, unit).await?) })
    }
}

impl Allocator for LocalAllocator {
    fn create<'a>(&'a self, subnet: &'a str, container: &'a ContainerRef) -> Answer<'a, Container> {
        Box::pin(self.make(subnet, container))
    }

    fn update<'a>(
        &'a self,
        subnet: &'a str,
        container: &'a ContainerRef,
        update: Update,
    ) -> Answer<'a, Container> {
        Box::pin(self.change(subnet, container, update))
    }

    fn delete<'a>(&'a self, subnet: &'a str, container: &'a ContainerRef) -> Answer<'a, ()> {
        Box::pin(async move {
            // The primary goes last: the container exists as long as its primary does, so a delete
            // that was interrupted is noticed.
            self.ledger.release(subnet, &container.secondary()?, None).await?;
            self.ledger.release(subnet, &container.primary()?, None).await?;
            Ok(())
        })
    }

    fn get<'a>(
        &'a self,
        subnet: &'a str,
        container: &'a ContainerRef,
    ) -> Answer<'a, Option<Container>> {
        Box::pin(async move {
            self.ledger.refresh(subnet).await?;
            let found = self.container(subnet, container, 0).await?;
            Ok((!found.primary.is_empty()).then_some(found))
        })
    }

    fn counts<'a>(&'a self, subnet: &'a str) -> Answer<'a, SubnetCounts> {
        Box::pin(async move { Ok(self.ledger.counts(subnet).await?) })
    }

    fn freed<'a>(&'a self, subnet: &'a str, seen: u64) -> Answer<'a, u64> {
        Box::pin(async move {
            let mut outlook = self.ledger.outlook(subnet).await.ok_or_else(|| none(subnet))?;
            let more = outlook.wait_for(|outlook| outlook.freed > seen).await;
            more.map(|outlook| outlook.freed).map_err(|_| none(subnet))
        })
    }
}

fn none(subnet: &str) -> AllocatorError {
    LedgerError::NoSubnet {
        subnet: subnet.to_owned(),
    }
    .into()
}
