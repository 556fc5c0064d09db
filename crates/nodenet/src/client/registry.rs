//! The subnets of a service.

use std::time::Duration;

use berth_addr::Plan;
use berth_api::allocator::{OwnerList, Reason, SubnetList, SubnetPlan};
use berth_ledger::{Kind, Owner, PlanError};
use futures::future::{BoxFuture, FutureExt};
use http::Method;

use super::RemoteAllocator;
use super::call::QUICK;
use crate::allocator::{Allocator, AllocatorError, ContainerRef, Registry, Removal, Utilization};

/// A service tells when something comes free, and not when something is taken: how full a subnet is, is looked at this often.
const BETWEEN_LOOKS: Duration = Duration::from_secs(10);

impl RemoteAllocator {
    async fn known(&self) -> Result<Vec<String>, AllocatorError> {
        let path = format!("{}/subnets", self.network);
        let known = self.caller.ask(Method::GET, &path, None::<&()>, QUICK).await;
        let SubnetList { subnets } = known.map_err(|failure| self.error(failure, ""))?;
        Ok(subnets)
    }

    async fn make_known(&self, subnet: &str, plan: &Plan, reuse_delay: Duration) -> Result<(), AllocatorError> {
        // What is wrong by itself is said here, in full.
        plan.layouts()
            .map_err(|error| AllocatorError::Ledger(PlanError::from(error).into()))?;
        let body = SubnetPlan::new(plan, reuse_delay);
        let set = self.caller.send(Method::PUT, &self.subnet(subnet), Some(&body)).await;
        set.map_err(|failure| self.error(failure, subnet))
    }

    async fn leave(&self, subnet: &str) -> Result<Removal, AllocatorError> {
        let path = self.subnet(subnet);
        let failure = match self.caller.send(Method::DELETE, &path, None::<&()>).await {
            Ok(()) => return Ok(Removal::Removed),
            Err(failure) => failure,
        };
        match failure.reason() {
            Some(Reason::NoSubnet) => Ok(Removal::Removed),
            Some(Reason::NotEmpty { owners }) => Ok(Removal::InUse { owners: *owners }),
            // It stays for the cluster that made it known. Ours has left it when none of its nodes has anything in it.
            Some(Reason::WrongCluster) => match self.of_ours(subnet).await?.len() {
                0 => Ok(Removal::Removed),
                owners => Ok(Removal::InUse { owners }),
            },
            _ => Err(self.error(failure, subnet)),
        }
    }

    /// The service knows from the certificate which cluster is meant.
    async fn of_ours(&self, subnet: &str) -> Result<Vec<Owner>, AllocatorError> {
        let path = format!("{}/owners", self.subnet(subnet));
        let owners = self.caller.ask(Method::GET, &path, None::<&()>, QUICK).await;
        let OwnerList { owners } = owners.map_err(|failure| self.error(failure, subnet))?;
        Ok(owners
            .iter()
            .map(|owner| owner.parse())
            .collect::<Result<Vec<Owner>, _>>()?)
    }

    /// A container goes as a whole, so what is asked for its first owner takes all of it.
    async fn take(&self, subnet: &str, owner: &Owner) -> Result<usize, AllocatorError> {
        if !matches!(owner.kind(), Kind::Primary | Kind::Secondary) {
            return Ok(0);
        }
        let container = ContainerRef {
            cluster: owner.cluster().to_owned(),
            node: owner.name().to_owned(),
            uid: owner.uid().to_owned(),
        };
        let found = self.find(subnet, &container).await?;
        // Also when it is not found: without its own address a container is none, and may have others left.
        self.delete(subnet, &container).await?;
        Ok(found.map_or(0, |found| {
            let secondaries = found.secondaries.iter().map(|lease| lease.units.len());
            found.primary.len() + secondaries.sum::<usize>()
        }))
    }
}

type Answer<'a, T> = BoxFuture<'a, Result<T, AllocatorError>>;

impl Registry for RemoteAllocator {
    fn is_shared(&self) -> bool {
        true
    }

    fn subnets(&self) -> Answer<'_, Vec<String>> {
        self.known().boxed()
    }

    fn set_subnet<'a>(&'a self, subnet: &'a str, plan: &'a Plan, reuse_delay: Duration) -> Answer<'a, ()> {
        self.make_known(subnet, plan, reuse_delay).boxed()
    }

    fn remove_subnet<'a>(&'a self, subnet: &'a str) -> Answer<'a, Removal> {
        self.leave(subnet).boxed()
    }

    fn owners<'a>(&'a self, subnet: &'a str, _: &'a str) -> Answer<'a, Vec<Owner>> {
        self.of_ours(subnet).boxed()
    }

    fn take_back<'a>(&'a self, subnet: &'a str, owner: &'a Owner) -> Answer<'a, usize> {
        self.take(subnet, owner).boxed()
    }

    fn changed<'a>(&'a self, subnet: &'a str, seen: &'a Utilization) -> Answer<'a, ()> {
        async move {
            match tokio::time::timeout(BETWEEN_LOOKS, self.wait(subnet, seen.freed)).await {
                Ok(freed) => freed.map(drop),
                Err(_) => Ok(()),
            }
        }
        .boxed()
    }
}
