//! OpenStack: extra routes of a Neutron router.
//!
//! Neutron cannot mark a route, so the next hops tell apart two clusters on one router. With the
//! extension `extraroute-atomic` a batch of routes is one call. Without it the whole list is
//! written with the revision that was read, so that no other change is lost.

mod client;
mod keystone;
mod pairs;
mod router;
mod settings;

use berth_addr::Prefix;
use futures::future::BoxFuture;
use tokio::sync::OnceCell;

use super::{Backend, BackendError, ErrorKind, Limits};
use crate::core::{Change, Hop, HopError, Mark, Node, Route};
use client::Client;
use router::Extra;

pub use settings::{Auth, OpenStackSettings, SettingsError};

/// Routes in one call.
const MAX_BATCH: usize = 100;

#[derive(Debug)]
pub struct OpenStack {
    client: Client,
    router: String,
    extensions: OnceCell<Extensions>,
}

/// What this Neutron can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extensions {
    extraroute_atomic: bool,
    revision_if_match: bool,
    allowed_address_pairs: bool,
}

impl OpenStack {
    pub fn new(settings: OpenStackSettings) -> Result<Self, BackendError> {
        Ok(Self {
            router: settings.router.clone(),
            client: Client::new(settings)?,
            extensions: OnceCell::new(),
        })
    }

    async fn extensions(&self) -> Result<Extensions, BackendError> {
        let ask = async || {
            let aliases = self.client.extensions().await?;
            let has = |alias: &str| aliases.iter().any(|one| one == alias);
            Ok(Extensions {
                extraroute_atomic: has("extraroute-atomic"),
                revision_if_match: has("revision-if-match"),
                allowed_address_pairs: has("allowed-address-pairs"),
            })
        };
        self.extensions.get_or_try_init(ask).await.copied()
    }

    /// Applies all changes in one call. Neutron refuses a batch with one bad route as a whole: then
    /// each half is tried separately, so that a bad route blocks no good one.
    fn apply_all<'a>(
        &'a self,
        extensions: Extensions,
        changes: &'a [Change],
    ) -> BoxFuture<'a, Vec<Result<(), BackendError>>> {
        Box::pin(async move {
            let error = match self.apply_together(extensions, changes).await {
                Ok(()) => return vec![Ok(()); changes.len()],
                Err(error) => error,
            };
            let divides = matches!(error.kind, ErrorKind::Refused | ErrorKind::Quota);
            if changes.len() == 1 || !divides {
                return vec![Err(error); changes.len()];
            }
            let (first, second) = changes.split_at(changes.len() / 2);
            let mut results = self.apply_all(extensions, first).await;
            results.extend(self.apply_all(extensions, second).await);
            results
        })
    }

    async fn apply_together(
        &self,
        extensions: Extensions,
        changes: &[Change],
    ) -> Result<(), BackendError> {
        let remove: Vec<Extra> = changes
            .iter()
            .flat_map(|change| &change.delete)
            .map(|route| Extra::new(route.destination, &route.hop))
            .collect();
        let add: Vec<Extra> = changes
            .iter()
            .filter_map(|change| {
                let creation = change.create.as_ref()?;
                Some(Extra::new(change.destination, &creation.hop))
            })
            .collect();
        let ports = match extensions.allowed_address_pairs {
            true => Some(pairs::Ports::behind(&self.client, &self.router).await?),
            false => None,
        };
        if let Some(ports) = &ports {
            for extra in &add {
                ports.allow(extra).await?;
            }
        }
        if extensions.extraroute_atomic {
            router::remove(&self.client, &self.router, &remove).await?;
            router::add(&self.client, &self.router, &add).await?;
        } else {
            let guarded = extensions.revision_if_match;
            router::rewrite(&self.client, &self.router, &remove, &add, guarded).await?;
        }
        if let Some(ports) = &ports {
            for extra in remove.iter().filter(|extra| !add.contains(extra)) {
                ports.disallow(extra).await?;
            }
        }
        Ok(())
    }
}

impl Backend for OpenStack {
    fn name(&self) -> &'static str {
        "openstack"
    }

    /// Neutron serializes the writes of a router anyway.
    fn limits(&self) -> Limits {
        Limits {
            calls: 1,
            batch: MAX_BATCH,
        }
    }

    fn mark(&self) -> Mark {
        Mark::Unmarked
    }

    fn hop(&self, node: &Node, destination: Prefix) -> Result<Hop, HopError> {
        node.address_hop(destination)
    }

    fn list(&self) -> BoxFuture<'_, Result<Vec<Route>, BackendError>> {
        Box::pin(async {
            let (extras, _) = router::read(&self.client, &self.router).await?;
            Ok(extras.iter().filter_map(Extra::route).collect())
        })
    }

    fn apply<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Vec<Result<(), BackendError>>> {
        Box::pin(async move {
            match self.extensions().await {
                Ok(extensions) => self.apply_all(extensions, changes).await,
                Err(error) => vec![Err(error); changes.len()],
            }
        })
    }
}
