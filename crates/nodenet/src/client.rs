//! The allocator of another process. Every call can be repeated: the service finds what was done
//! already and does not do it twice. So the client repeats each call until it is answered, with
//! pauses and not for ever.

mod call;
mod error;
mod pod_cidrs;
mod refusal;
mod registry;

use std::path::Path;

use berth_api::allocator::{self as wire, Freed, Reason};
use futures::future::{BoxFuture, FutureExt};
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::allocator::{Allocator, AllocatorError, Container, ContainerRef, SubnetCounts, Update};
use call::{Caller, REQUEST_TIMEOUT, WAIT_TIMEOUT};
use error::CallError;

pub use call::ConnectError;

/// A client of the service, for one cluster.
#[derive(Clone, Debug)]
pub struct RemoteAllocator {
    caller: Caller,
    /// `/networks/<network>`
    network: String,
}

/// The network that is used if the service's URL names none.
const DEFAULT_NETWORK: &str = "default";

/// The characters that are escaped in a path.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

impl RemoteAllocator {
    /// For the service at `url`, as `https://HOST:PORT` or `https://HOST:PORT/networks/NETWORK`,
    /// whose certificate one of `ca` has signed. The Common Name of `certificate` is the cluster
    /// that we act for. All three are PEM files. It has not called yet.
    pub fn connect(
        url: &str,
        ca: &Path,
        certificate: &Path,
        key: &Path,
    ) -> Result<Self, ConnectError> {
        let (base, network) = match url.trim_end_matches('/').split_once("/networks/") {
            Some((base, network)) => (base, network),
            None => (url.trim_end_matches('/'), DEFAULT_NETWORK),
        };
        Ok(Self {
            caller: Caller::new(url, base, ca, certificate, key)?,
            network: format!("/networks/{}", escaped(network)),
        })
    }

    /// The cluster that the certificate is for: the service serves only its containers.
    pub fn cluster(&self) -> &str {
        self.caller.cluster()
    }

    fn subnet(&self, name: &str) -> String {
        format!("{}/subnets/{}", self.network, escaped(name))
    }

    fn container(&self, subnet: &str, container: &ContainerRef) -> Result<String, AllocatorError> {
        // This refuses invalid names, so that they never become parts of a path.
        container.primary()?;
        container.secondary()?;
        let ContainerRef { cluster, node, uid } = container;
        let parts = [cluster, node, uid].map(|part| escaped(part)).join("/");
        Ok(format!("{}/containers/{parts}", self.subnet(subnet)))
    }

    fn error(&self, error: CallError, subnet: &str) -> AllocatorError {
        error.into_error(self.caller.address(), subnet)
    }

    async fn make(
        &self,
        subnet: &str,
        container: &ContainerRef,
    ) -> Result<Container, AllocatorError> {
        let path = self.container(subnet, container)?;
        let made = self.caller.ask(Method::PUT, &path, None::<&()>, REQUEST_TIMEOUT).await;
        made.map_err(|error| self.error(error, subnet))
    }

    async fn change(
        &self,
        subnet: &str,
        container: &ContainerRef,
        update: Update,
    ) -> Result<Container, AllocatorError> {
        let path = self.container(subnet, container)?;
        let ask = || self.caller.ask(Method::PATCH, &path, Some(&update), REQUEST_TIMEOUT);
        let mut changed = ask().await;
        if is_no_container(&changed) {
            // Somebody has given back the whole container, and the caller does not know it. It is
            // created again, as with an allocator in this process.
            match self.make(subnet, container).await {
                Ok(_) => changed = ask().await,
                Err(AllocatorError::SubnetFull { .. }) => {
                    return Ok(nothing(subnet, container, update.count));
                }
                Err(error) => return Err(error),
            }
        }
        changed.map_err(|error| self.error(error, subnet))
    }

    async fn find(
        &self,
        subnet: &str,
        container: &ContainerRef,
    ) -> Result<Option<Container>, AllocatorError> {
        let path = self.container(subnet, container)?;
        match self.caller.ask(Method::GET, &path, None::<&()>, REQUEST_TIMEOUT).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.reason() == Some(&Reason::NoContainer) => Ok(None),
            Err(error) => Err(self.error(error, subnet)),
        }
    }

    async fn wait(&self, subnet: &str, seen: u64) -> Result<u64, AllocatorError> {
        let path = format!("{}/freed?seen={seen}", self.subnet(subnet));
        loop {
            let answer = self.caller.ask(Method::GET, &path, None::<&()>, WAIT_TIMEOUT).await;
            let Freed { freed } = answer.map_err(|error| self.error(error, subnet))?;
            // The same number means that the wait took too long for one request.
            if freed != seen {
                return Ok(freed);
            }
        }
    }
}

impl Allocator for RemoteAllocator {
    fn create<'a>(
        &'a self,
        subnet: &'a str,
        container: &'a ContainerRef,
    ) -> BoxFuture<'a, Result<Container, AllocatorError>> {
        self.make(subnet, container).boxed()
    }

    fn update<'a>(
        &'a self,
        subnet: &'a str,
        container: &'a ContainerRef,
        update: Update,
    ) -> BoxFuture<'a, Result<Container, AllocatorError>> {
        self.change(subnet, container, update).boxed()
    }

    fn delete<'a>(
        &'a self,
        subnet: &'a str,
        container: &'a ContainerRef,
    ) -> BoxFuture<'a, Result<(), AllocatorError>> {
        async move {
            let path = self.container(subnet, container)?;
            let deleted = self.caller.send(Method::DELETE, &path, None::<&()>).await;
            deleted.map_err(|error| self.error(error, subnet))
        }
        .boxed()
    }

    fn get<'a>(
        &'a self,
        subnet: &'a str,
        container: &'a ContainerRef,
    ) -> BoxFuture<'a, Result<Option<Container>, AllocatorError>> {
        self.find(subnet, container).boxed()
    }

    fn counts<'a>(
        &'a self,
        subnet: &'a str,
    ) -> BoxFuture<'a, Result<SubnetCounts, AllocatorError>> {
        async move {
            let path = format!("{}/counts", self.subnet(subnet));
            let counts = self.caller.ask(Method::GET, &path, None::<&()>, REQUEST_TIMEOUT).await;
            let counts: wire::SubnetCounts = counts.map_err(|error| self.error(error, subnet))?;
            let families = counts.families.into_iter();
            Ok(SubnetCounts {
                families: families.map(|(family, counts)| (family, counts.into())).collect(),
                freed: counts.freed,
            })
        }
        .boxed()
    }

    fn freed<'a>(
        &'a self,
        subnet: &'a str,
        seen: u64,
    ) -> BoxFuture<'a, Result<u64, AllocatorError>> {
        self.wait(subnet, seen).boxed()
    }
}

fn is_no_container(answer: &Result<Container, CallError>) -> bool {
    let error = answer.as_ref().err();
    error.and_then(CallError::reason) == Some(&Reason::NoContainer)
}

/// A container of which there is nothing.
fn nothing(subnet: &str, container: &ContainerRef, short: usize) -> Container {
    Container {
        id: container.id(),
        subnet: subnet.to_owned(),
        primary: Vec::new(),
        secondaries: Vec::new(),
        short,
    }
}

fn escaped(part: &str) -> String {
    utf8_percent_encode(part, PLAIN).to_string()
}
