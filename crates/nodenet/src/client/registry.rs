//! The subnets of a service.

use std::collections::BTreeSet;
use std::time::Duration;

use berth_addr::Plan;
use berth_api::allocator::{
    self as wire, ClaimList, ClaimedList, Generation, Opened, OwnerList, Reason, SubnetList,
    SubnetPlan,
};
use berth_ledger::{Claim, Claimed, Kind, Lease, LeaseId, Owner, PlanError, Tenure};
use futures::future::{BoxFuture, FutureExt};
use http::Method;

use super::RemoteAllocator;
use super::call::REQUEST_TIMEOUT;
use crate::allocator::{
    Allocator, AllocatorError, ContainerRef, Registry, Removal, Secondary, SubnetCounts, Update,
};

/// A service reports when addresses come free, but not when they are taken. So the counts are
/// polled at this interval.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Claims in one request: far below what the service reads of a body.
const MAX_CLAIMS: usize = 4096;

impl RemoteAllocator {
    async fn registered(&self) -> Result<Vec<String>, AllocatorError> {
        let path = format!("{}/subnets", self.network);
        let subnets = self.caller.ask(Method::GET, &path, None::<&()>, REQUEST_TIMEOUT).await;
        let SubnetList { subnets } = subnets.map_err(|error| self.error(error, ""))?;
        Ok(subnets)
    }

    async fn register(
        &self,
        subnet: &str,
        plan: &Plan,
        reuse_delay: Duration,
    ) -> Result<(), AllocatorError> {
        // A plan that is invalid in itself is refused here, with the full error.
        plan.layouts()
            .map_err(|error| AllocatorError::Ledger(PlanError::from(error).into()))?;
        let body = SubnetPlan::new(plan, reuse_delay);
        let set = self.caller.send(Method::PUT, &self.subnet(subnet), Some(&body)).await;
        set.map_err(|error| self.error(error, subnet))
    }

    async fn leave(&self, subnet: &str) -> Result<Removal, AllocatorError> {
        let path = self.subnet(subnet);
        let error = match self.caller.send(Method::DELETE, &path, None::<&()>).await {
            Ok(()) => return Ok(Removal::Removed),
            Err(error) => error,
        };
        match error.reason() {
            Some(Reason::NoSubnet) => Ok(Removal::Removed),
            Some(Reason::NotEmpty { owners }) => Ok(Removal::InUse { owners: *owners }),
            // The subnet stays for the cluster that registered it. For our cluster it is removed
            // when none of our nodes has anything in it.
            Some(Reason::WrongCluster) => match self.of_ours(subnet).await?.len() {
                0 => Ok(Removal::Removed),
                owners => Ok(Removal::InUse { owners }),
            },
            _ => Err(self.error(error, subnet)),
        }
    }

    /// The service knows from the certificate which cluster is meant.
    async fn of_ours(&self, subnet: &str) -> Result<Vec<Owner>, AllocatorError> {
        let path = format!("{}/owners", self.subnet(subnet));
        let owners = self.caller.ask(Method::GET, &path, None::<&()>, REQUEST_TIMEOUT).await;
        let OwnerList { owners } = owners.map_err(|error| self.error(error, subnet))?;
        Ok(owners
            .iter()
            .map(|owner| owner.parse())
            .collect::<Result<Vec<Owner>, _>>()?)
    }

    fn container_of(owner: &Owner) -> Option<ContainerRef> {
        matches!(owner.kind(), Kind::Primary | Kind::Secondary).then(|| ContainerRef {
            cluster: owner.cluster().to_owned(),
            node: owner.name().to_owned(),
            uid: owner.uid().to_owned(),
        })
    }

    async fn leases(&self, subnet: &str, owner: &Owner) -> Result<Vec<Lease>, AllocatorError> {
        let Some(container) = Self::container_of(owner) else {
            return Ok(Vec::new());
        };
        let Some(found) = self.find(subnet, &container).await? else {
            return Ok(Vec::new());
        };
        let secondaries = found.secondaries.into_iter();
        Ok(match owner.kind() {
            Kind::Primary => vec![Lease {
                id: found.id,
                units: found.primary,
            }],
            _ => secondaries.map(|Secondary { id, units }| Lease { id, units }).collect(),
        })
    }

    /// The service takes back leases for pods one by one, but a container's own address only with
    /// the whole container.
    async fn take(
        &self,
        subnet: &str,
        owner: &Owner,
        leases: Vec<LeaseId>,
    ) -> Result<usize, AllocatorError> {
        let Some(container) = Self::container_of(owner) else {
            return Ok(0);
        };
        let Some(found) = self.find(subnet, &container).await? else {
            return Ok(0);
        };
        if owner.kind() == Kind::Primary {
            if found.secondaries.is_empty() {
                self.delete(subnet, &container).await?;
                return Ok(found.primary.len());
            }
            return Ok(0);
        }
        let released = found.secondaries.iter().filter(|lease| leases.contains(&lease.id));
        let count = released.map(|lease| lease.units.len()).sum();
        let update = Update {
            request: container.id(),
            count: 0,
            give_back: leases,
        };
        self.update(subnet, &container, update).await?;
        Ok(count)
    }

    async fn claim(
        &self,
        subnet: &str,
        claims: Vec<Claim>,
    ) -> Result<Vec<Claimed>, AllocatorError> {
        let path = format!("{}/claims", self.subnet(subnet));
        let mut outcomes = Vec::with_capacity(claims.len());
        for part in claims.chunks(MAX_CLAIMS) {
            let written = |claim: &Claim| wire::Claim {
                unit: claim.unit,
                owner: claim.owner.to_string(),
                lease: claim.lease.to_string(),
                from: claim.from.as_ref().map(ToString::to_string),
            };
            let body = ClaimList {
                claims: part.iter().map(written).collect(),
            };
            let answer = self.caller.ask(Method::POST, &path, Some(&body), REQUEST_TIMEOUT).await;
            let ClaimedList { claimed } = answer.map_err(|error| self.error(error, subnet))?;
            for outcome in claimed {
                outcomes.push(match outcome {
                    wire::Claimed::Had => Claimed::Had,
                    wire::Claimed::Taken => Claimed::Taken,
                    wire::Claimed::Outside => Claimed::Outside,
                    wire::Claimed::Owned { owner, lease } => Claimed::Owned(Tenure {
                        owner: owner.parse()?,
                        lease: lease.parse().unwrap_or_default(),
                        // The service does not say.
                        since: 0,
                    }),
                });
            }
        }
        Ok(outcomes)
    }

    async fn ask_generation(&self, subnet: &str) -> Result<u64, AllocatorError> {
        let path = format!("{}/claims", self.subnet(subnet));
        let answer = self.caller.ask(Method::GET, &path, None::<&()>, REQUEST_TIMEOUT).await;
        let Generation { generation } = answer.map_err(|error| self.error(error, subnet))?;
        Ok(generation)
    }
}

type Answer<'a, T> = BoxFuture<'a, Result<T, AllocatorError>>;

impl Registry for RemoteAllocator {
    fn is_shared(&self) -> bool {
        true
    }

    fn require_claims(&self, _: &str) {}

    fn begin_epoch(&self) -> Answer<'_, u64> {
        async { Ok(0) }.boxed()
    }

    fn unregister_all_but<'a>(&'a self, _: &'a BTreeSet<String>) -> Answer<'a, ()> {
        async { Ok(()) }.boxed()
    }

    fn subnets(&self) -> Answer<'_, Vec<String>> {
        self.registered().boxed()
    }

    fn set_subnet<'a>(
        &'a self,
        subnet: &'a str,
        plan: &'a Plan,
        reuse_delay: Duration,
    ) -> Answer<'a, ()> {
        self.register(subnet, plan, reuse_delay).boxed()
    }

    fn remove_subnet<'a>(&'a self, subnet: &'a str) -> Answer<'a, Removal> {
        self.leave(subnet).boxed()
    }

    fn owners<'a>(&'a self, subnet: &'a str, _: &'a str) -> Answer<'a, Vec<Owner>> {
        self.of_ours(subnet).boxed()
    }

    fn held<'a>(&'a self, subnet: &'a str, owner: &'a Owner) -> Answer<'a, Vec<Lease>> {
        self.leases(subnet, owner).boxed()
    }

    fn take_back<'a>(
        &'a self,
        subnet: &'a str,
        owner: &'a Owner,
        leases: Vec<LeaseId>,
    ) -> Answer<'a, usize> {
        self.take(subnet, owner, leases).boxed()
    }

    fn restore<'a>(&'a self, subnet: &'a str, claims: Vec<Claim>) -> Answer<'a, Vec<Claimed>> {
        self.claim(subnet, claims).boxed()
    }

    fn generation<'a>(&'a self, subnet: &'a str, _: &'a str) -> Answer<'a, u64> {
        self.ask_generation(subnet).boxed()
    }

    fn open_gate<'a>(&'a self, subnet: &'a str, _: &'a str, generation: u64) -> Answer<'a, bool> {
        async move {
            let path = format!("{}/claims", self.subnet(subnet));
            let body = Generation { generation };
            let answer = self.caller.ask(Method::PUT, &path, Some(&body), REQUEST_TIMEOUT).await;
            let Opened { opened } = answer.map_err(|error| self.error(error, subnet))?;
            Ok(opened)
        }
        .boxed()
    }

    fn lost<'a>(&'a self, subnet: &'a str, _: &'a str, generation: u64) -> Answer<'a, ()> {
        async move {
            loop {
                tokio::time::sleep(POLL_INTERVAL).await;
                if self.ask_generation(subnet).await? != generation {
                    return Ok(());
                }
            }
        }
        .boxed()
    }

    fn changed<'a>(&'a self, subnet: &'a str, seen: &'a SubnetCounts) -> Answer<'a, ()> {
        async move {
            match tokio::time::timeout(POLL_INTERVAL, self.wait(subnet, seen.freed)).await {
                Ok(freed) => freed.map(drop),
                Err(_) => Ok(()),
            }
        }
        .boxed()
    }
}
