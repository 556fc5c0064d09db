//! Routes of this machine's kernel, marked with our own protocol number.
//!
//! Runs on every node, with routes to all others (`berth agent --routes=linux`), or on one machine
//! that routes for all (`berth controller --cloud=linux`).

use std::sync::Arc;

use berth_addr::Prefix;
use berth_netlink::{
    Batch, MAIN_TABLE, NetlinkError, Protocol, Route as KernelRoute, RouteFilter, RouteKind, Socket,
};
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::{Backend, BackendError, ErrorKind, Limits};
use crate::core::{Change, Hop, HopError, Mark, Node, Route};

/// What marks a route as ours, in `ip route` as `proto 77`. Nobody else is known to use it.
pub const PROTOCOL: Protocol = Protocol(77);

/// As many as the kernel takes in one send.
const MAX_BATCH: usize = 1024;

#[derive(Clone, Debug)]
pub struct Linux {
    /// A call blocks for milliseconds at most; one call at a time uses the socket.
    socket: Arc<Mutex<Socket>>,
}

impl Linux {
    /// In the network namespace of this thread.
    pub fn open() -> Result<Self, NetlinkError> {
        Socket::open().map(Self::with)
    }

    /// In the network namespace of the socket.
    pub fn with(socket: Socket) -> Self {
        Self {
            socket: Arc::new(Mutex::new(socket)),
        }
    }

    fn list_now(&self) -> Result<Vec<Route>, BackendError> {
        let filter = RouteFilter {
            table: Some(MAIN_TABLE),
            protocol: Some(PROTOCOL),
            ..RouteFilter::default()
        };
        let routes = self
            .socket
            .lock()
            .routes(&filter)
            .map_err(|error| refused(&error))?;
        Ok(routes.iter().map(listed).collect())
    }

    fn apply_now(&self, changes: &[Change]) -> Vec<Result<(), BackendError>> {
        let mut batch = Batch::default();
        let mut owners = Vec::new();
        for (at, change) in changes.iter().enumerate() {
            for request in requests(change) {
                owners.push((at, request.tolerates_gone()));
                request.add_to(&mut batch);
            }
        }
        let mut results = vec![Ok(()); changes.len()];
        let answers = match self.socket.lock().call(batch) {
            Ok(answers) => answers,
            Err(error) => return vec![Err(refused(&error)); changes.len()],
        };
        for (answer, (at, tolerates_gone)) in answers.into_iter().zip(owners) {
            if let Err(error) = answer
                && !(tolerates_gone && error.is_gone())
                && let Some(result) = results.get_mut(at)
                && result.is_ok()
            {
                *result = Err(refused(&error));
            }
        }
        results
    }
}

enum Request {
    Add(KernelRoute),
    /// Replaces in one step: packets always find a route.
    Replace(KernelRoute),
    Delete(KernelRoute),
}

impl Request {
    fn tolerates_gone(&self) -> bool {
        matches!(self, Self::Delete(_))
    }

    fn add_to(&self, batch: &mut Batch) {
        match self {
            Self::Add(route) => batch.add_route(route),
            Self::Replace(route) => batch.put_route(route),
            Self::Delete(route) => batch.delete_route(route),
        }
    }
}

/// The new route replaces the first route to be deleted.
fn requests(change: &Change) -> Vec<Request> {
    let mut requests = Vec::new();
    let made = change
        .create
        .as_ref()
        .map(|creation| kernel_route(change.destination, &creation.hop));
    let mut deleted = change.delete.iter();
    if let Some(made) = made {
        requests.push(match deleted.next() {
            Some(_) => Request::Replace(made),
            None => Request::Add(made),
        });
    }
    requests.extend(deleted.map(|route| {
        let mut kernel = kernel_route(route.destination, &route.hop);
        if !route.usable && kernel.gateway.is_none() {
            kernel.kind = RouteKind::Blackhole;
        }
        Request::Delete(kernel)
    }));
    requests
}

fn kernel_route(destination: Prefix, hop: &Hop) -> KernelRoute {
    KernelRoute {
        gateway: match hop {
            Hop::Address(address) => Some(*address),
            Hop::Instance(_) | Hop::Other(_) => None,
        },
        protocol: PROTOCOL,
        ..KernelRoute::to(destination)
    }
}

fn listed(route: &KernelRoute) -> Route {
    Route {
        destination: route.destination,
        hop: match route.gateway {
            Some(gateway) => Hop::Address(gateway),
            None => Hop::Other(route.to_string()),
        },
        mark: Mark::Ours,
        usable: route.kind == RouteKind::Unicast && route.gateway.is_some(),
    }
}

fn refused(error: &NetlinkError) -> BackendError {
    let mut message = error.to_string();
    if let Some(source) = std::error::Error::source(error) {
        message = format!("{message}: {source}");
    }
    if error.is_taken() {
        message = format!("{message}: there is a route to it that is not ours; remove it");
    }
    BackendError::new(ErrorKind::Refused, message)
}

impl Backend for Linux {
    fn name(&self) -> &'static str {
        "linux"
    }

    fn limits(&self) -> Limits {
        Limits {
            calls: 1,
            batch: MAX_BATCH,
        }
    }

    fn mark(&self) -> Mark {
        Mark::Ours
    }

    fn hop(&self, node: &Node, destination: Prefix) -> Result<Hop, HopError> {
        node.address_hop(destination)
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Route>, BackendError>> {
        let this = self.clone();
        Box::pin(async move { blocking(move || this.list_now()).await? })
    }

    fn apply<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Vec<Result<(), BackendError>>> {
        let (this, changes) = (self.clone(), changes.to_vec());
        Box::pin(async move {
            let count = changes.len();
            let applied = blocking(move || this.apply_now(&changes)).await;
            applied.unwrap_or_else(|error| vec![Err(error); count])
        })
    }
}

/// The kernel needs a good part of a second for thousands of routes: off the async threads.
async fn blocking<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> Result<T, BackendError> {
    let ended = tokio::task::spawn_blocking(call).await;
    ended.map_err(|error| BackendError::unavailable(format!("netlink: {error}")))
}
