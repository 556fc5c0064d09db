//! A service allocates no podCIDRs.

use berth_addr::Prefix;
use berth_ledger::{Refusal, Tenure};
use futures::future::{BoxFuture, FutureExt};

use super::RemoteAllocator;
use crate::allocator::{AllocatorError, ContainerRef, PodCidrs};

type Answer<'a, T> = BoxFuture<'a, Result<T, AllocatorError>>;

impl RemoteAllocator {
    fn no_pod_cidrs<T: Send + 'static>(&self) -> Answer<'_, T> {
        let address = self.caller.address().to_owned();
        async { Err(AllocatorError::NoPodCidrs { address }) }.boxed()
    }
}

impl PodCidrs for RemoteAllocator {
    fn serves_pod_cidrs(&self) -> bool {
        false
    }

    fn lease_pod_cidrs<'a>(&'a self, _: &'a str, _: &'a ContainerRef) -> Answer<'a, Vec<Prefix>> {
        self.no_pod_cidrs()
    }

    fn claim_pod_cidr<'a>(
        &'a self,
        _: &'a str,
        _: &'a ContainerRef,
        _: Prefix,
        _: Vec<Prefix>,
    ) -> Answer<'a, Result<(), Refusal>> {
        self.no_pod_cidrs()
    }

    fn owner_of<'a>(&'a self, _: &'a str, _: Prefix) -> Answer<'a, Option<Tenure>> {
        self.no_pod_cidrs()
    }
}
