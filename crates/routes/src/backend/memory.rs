//! Routes in memory: for `berth up`, where nothing is to be routed, and for tests and benchmarks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_addr::Prefix;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::{Backend, BackendError, ErrorKind, Limits};
use crate::core::{Change, Hop, HopError, Mark, Node, Route};

/// Like a cloud: each route costs a call, and 200 calls are served at a time. Clones share their
/// routes.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    routes: Arc<Mutex<BTreeMap<Prefix, Vec<Route>>>>,
    /// How long each call takes.
    latency: Duration,
}

impl Memory {
    /// As a cloud far away.
    pub fn with_latency(latency: Duration) -> Self {
        Self {
            latency,
            ..Self::default()
        }
    }

    pub fn routes(&self) -> Vec<Route> {
        self.routes.lock().values().flatten().cloned().collect()
    }

    /// Replaces the routes, as if somebody else had changed them.
    pub fn set(&self, routes: Vec<Route>) {
        let mut there = self.routes.lock();
        there.clear();
        for route in routes {
            there.entry(route.destination).or_default().push(route);
        }
    }

    fn change(&self, change: &Change) -> Result<(), BackendError> {
        let mut all = self.routes.lock();
        let routes = all.entry(change.destination).or_default();
        routes.retain(|route| !change.delete.contains(route));
        let is_free = routes.is_empty();
        let Some(creation) = &change.create else {
            if is_free {
                all.remove(&change.destination);
            }
            return Ok(());
        };
        if !is_free {
            let message = format!("there is a route to {} already", change.destination);
            return Err(BackendError::new(ErrorKind::Conflict, message));
        }
        routes.push(Route {
            destination: change.destination,
            hop: creation.hop.clone(),
            mark: Mark::Ours,
            usable: true,
        });
        Ok(())
    }
}

impl Backend for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn limits(&self) -> Limits {
        Limits {
            calls: 200,
            batch: 1,
        }
    }

    fn mark(&self) -> Mark {
        Mark::Ours
    }

    /// Takes an address of the other family if there is no other: nothing is routed here.
    fn hop(&self, node: &Node, destination: Prefix) -> Result<Hop, HopError> {
        node.address_hop(destination).or_else(|error| {
            let any = node.internal_addresses().next();
            any.map(Hop::Address).ok_or(error)
        })
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Route>, BackendError>> {
        Box::pin(async {
            wait(self.latency).await;
            Ok(self.routes())
        })
    }

    fn apply<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Vec<Result<(), BackendError>>> {
        Box::pin(async {
            wait(self.latency).await;
            changes.iter().map(|change| self.change(change)).collect()
        })
    }
}

async fn wait(latency: Duration) {
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
}
