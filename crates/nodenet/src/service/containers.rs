//! Containers: create, update, delete, get.
//!
//! Why nothing is leased twice: the ledger keeps what is durable, and the names of leases are
//! derived from the request's id. This side only keeps the order: one request at a time for each
//! container, and each to its end, also when the caller goes away meanwhile. After half a request,
//! the next one would count from a number that is about to change.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use berth_ledger::{LeaseId, Owner};
use http::StatusCode;

use super::error::ServiceError;
use super::plan::Settled;
use super::target::ContainerOfCaller;
use super::{Shared, body};
use crate::allocator::{Allocator, AllocatorError, Container, Update};

/// As the CRD allows for `maxIPCount`.
const MAX_COUNT: usize = 65_536;

pub async fn create(
    State(shared): State<Arc<Shared>>,
    target: ContainerOfCaller,
) -> Result<Json<Container>, ServiceError> {
    serve(shared, target, Request::create).await.map(Json)
}

pub async fn update(
    State(shared): State<Arc<Shared>>,
    target: ContainerOfCaller,
    body: Body,
) -> Result<Json<Container>, ServiceError> {
    let update: Update = body::read(body, &shared.limits).await?;
    if update.count > MAX_COUNT {
        let why = format_args!(
            "{} is more than a node can have: ask for at most {MAX_COUNT}",
            update.count
        );
        return Err(ServiceError::invalid("count", why));
    }
    serve(shared, target, |request| request.update(update)).await.map(Json)
}

pub async fn delete(
    State(shared): State<Arc<Shared>>,
    target: ContainerOfCaller,
) -> Result<StatusCode, ServiceError> {
    serve(shared, target, Request::delete).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub async fn get(
    State(shared): State<Arc<Shared>>,
    target: ContainerOfCaller,
) -> Result<Json<Container>, ServiceError> {
    serve(shared, target, Request::get).await.map(Json)
}

async fn serve<T, F>(
    shared: Arc<Shared>,
    target: ContainerOfCaller,
    operation: impl FnOnce(Request) -> F + Send + 'static,
) -> Result<T, ServiceError>
where
    T: Send + 'static,
    F: Future<Output = Result<T, ServiceError>> + Send + 'static,
{
    let permit = shared.admit().await?;
    let served = tokio::spawn({
        let shared = Arc::clone(&shared);
        async move {
            let _permit = permit;
            let _turn = shared.turns.wait(target.container.id()).await;
            let settled = shared.plans.settled().await;
            operation(Request {
                shared,
                target,
                settled,
            })
            .await
        }
    });
    shared.outcome(served).await
}

/// A request that has its turn.
struct Request {
    shared: Arc<Shared>,
    target: ContainerOfCaller,
    settled: Settled,
}

impl Request {
    async fn create(self) -> Result<Container, ServiceError> {
        let ContainerOfCaller { subnet, container } = &self.target;
        self.settled.check(subnet)?;
        let had = self.leases().await.map_err(|error| self.refused(error))?;
        let made = self.shared.allocator.create(subnet.key(), container).await;
        let made = made.map_err(|error| self.refused(error))?;
        self.confirm(&had).await?;
        Ok(self.named(made))
    }

    async fn update(self, update: Update) -> Result<Container, ServiceError> {
        let ContainerOfCaller { subnet, container } = &self.target;
        self.settled.check(subnet)?;
        // An update that comes after the delete must not lease for a container that nobody will
        // delete again.
        if !self.is_there().await.map_err(|error| self.refused(error))? {
            return Err(ServiceError::no_container(subnet, container));
        }
        let had = self.leases().await.map_err(|error| self.refused(error))?;
        let updated = self.shared.allocator.update(subnet.key(), container, update).await;
        let updated = updated.map_err(|error| self.refused(error))?;
        self.confirm(&had).await?;
        Ok(self.named(updated))
    }

    async fn delete(self) -> Result<(), ServiceError> {
        let ContainerOfCaller { subnet, container } = &self.target;
        let deleted = self.shared.allocator.delete(subnet.key(), container).await;
        deleted.map_err(|error| self.refused(error))
    }

    async fn get(self) -> Result<Container, ServiceError> {
        let ContainerOfCaller { subnet, container } = &self.target;
        let found = self.shared.allocator.get(subnet.key(), container).await;
        let found = found.map_err(|error| self.refused(error))?;
        let found = found.map(|found| self.named(found));
        found.ok_or_else(|| ServiceError::no_container(subnet, container))
    }

    /// Looks into the store before it says no: another process may have made the container.
    async fn is_there(&self) -> Result<bool, AllocatorError> {
        let (key, primary) = (self.target.subnet.key(), self.target.container.primary()?);
        let ledger = self.shared.allocator.ledger();
        if !ledger.held(key, &primary).await?.is_empty() {
            return Ok(true);
        }
        ledger.refresh(key).await?;
        Ok(!ledger.held(key, &primary).await?.is_empty())
    }

    async fn leases(&self) -> Result<BTreeSet<LeaseId>, AllocatorError> {
        let (key, ledger) = (self.target.subnet.key(), self.shared.allocator.ledger());
        let mut leases = BTreeSet::new();
        for owner in self.owners()? {
            leases.extend(ledger.held(key, &owner).await?.into_iter().map(|lease| lease.id));
        }
        Ok(leases)
    }

    fn owners(&self) -> Result<[Owner; 2], AllocatorError> {
        let container = &self.target.container;
        Ok([container.primary()?, container.secondary()?])
    }

    /// Gives back what was leased by a plan that is no longer the document's, before the caller
    /// gets an answer. What the container `had` stays.
    async fn confirm(&self, had: &BTreeSet<LeaseId>) -> Result<(), ServiceError> {
        let Err(changed) = self.shared.plans.confirm(&self.settled, &self.target.subnet).await
        else {
            return Ok(());
        };
        self.give_back_all_but(had).await.map_err(|error| self.refused(error))?;
        Err(changed.into())
    }

    async fn give_back_all_but(&self, had: &BTreeSet<LeaseId>) -> Result<(), AllocatorError> {
        let (key, ledger) = (self.target.subnet.key(), self.shared.allocator.ledger());
        let new: Vec<LeaseId> = self.leases().await?.difference(had).copied().collect();
        for owner in self.owners()? {
            ledger.release(key, &owner, Some(new.clone())).await?;
        }
        Ok(())
    }

    /// The container with the subnet's name as the caller knows it.
    fn named(&self, container: Container) -> Container {
        Container {
            subnet: self.target.subnet.subnet().to_owned(),
            ..container
        }
    }

    fn refused(&self, error: AllocatorError) -> ServiceError {
        ServiceError::of_allocator(error, &self.target.subnet)
    }
}
