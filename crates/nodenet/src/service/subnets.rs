//! Subnets: register, remove, read, and wait for addresses to come free.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use berth_api::allocator::{
    Counts, Freed, OwnerList, SubnetCounts, SubnetList, SubnetPlan, SubnetReport, Utilization,
};
use berth_ledger::Outlook;
use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use tokio::sync::watch;

use super::error::ServiceError;
use super::name::{Network, SubnetName};
use super::target::Caller;
use super::{Shared, body};
use crate::allocator::{Allocator, Registry, scarcest};

pub async fn set(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    name: SubnetName,
    body: Body,
) -> Result<StatusCode, ServiceError> {
    let plan: SubnetPlan = body::read(body, &shared.limits).await?;
    // Fills in the defaults, so that plans of several clusters that mean the same are equal.
    let plan = SubnetPlan::new(&plan.plan(), plan.reuse_delay());
    let permit = shared.admit().await?;
    let plans = shared.plans.clone();
    // The change runs to its end: dropped between the ledger and the document, it would leave them
    // different.
    let set = tokio::spawn(async move {
        let _permit = permit;
        Ok(plans.set(&name, &caller.cluster, &plan).await?)
    });
    shared.outcome(set).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub async fn remove(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    name: SubnetName,
) -> Result<StatusCode, ServiceError> {
    let permit = shared.admit().await?;
    let plans = shared.plans.clone();
    let removed = tokio::spawn(async move {
        let _permit = permit;
        Ok(plans.remove(&name, &caller.cluster).await?)
    });
    shared.outcome(removed).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub async fn list(State(shared): State<Arc<Shared>>, network: Network) -> Json<SubnetList> {
    let names = shared.plans.names().await;
    let of_network = names.iter().filter(|name| network.has(name));
    let subnets = of_network.map(|name| name.subnet().to_owned()).collect();
    Json(SubnetList { subnets })
}

/// Only owners of the caller's cluster; from the store, so that an owner that is not listed has
/// nothing.
pub async fn owners(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    name: SubnetName,
) -> Result<Json<OwnerList>, ServiceError> {
    let _permit = shared.admit().await?;
    let refused = |error| ServiceError::of_allocator(error, &name);
    let refreshed = shared.allocator.ledger().refresh(name.key()).await;
    refreshed.map_err(|error| refused(error.into()))?;
    let owners = shared.allocator.owners(name.key(), &caller.cluster).await;
    let owners = owners.map_err(refused)?.iter().map(ToString::to_string).collect();
    Ok(Json(OwnerList { owners }))
}

pub async fn get(
    State(shared): State<Arc<Shared>>,
    name: SubnetName,
) -> Result<Json<SubnetReport>, ServiceError> {
    let _permit = shared.admit().await?;
    let planned = shared.plans.get(&name).await;
    let planned = planned.ok_or_else(|| ServiceError::no_subnet(&name))?;
    let SubnetCounts { families, freed } = count(&shared, &name).await?;
    Ok(Json(SubnetReport {
        cluster: planned.cluster,
        plan: planned.plan,
        freed,
        families,
    }))
}

/// How full it is at this moment.
pub async fn counts(
    State(shared): State<Arc<Shared>>,
    name: SubnetName,
) -> Result<Json<SubnetCounts>, ServiceError> {
    let _permit = shared.admit().await?;
    count(&shared, &name).await.map(Json)
}

async fn count(shared: &Shared, name: &SubnetName) -> Result<SubnetCounts, ServiceError> {
    let counts = shared.allocator.counts(name.key()).await;
    let counts = counts.map_err(|error| ServiceError::of_allocator(error, name))?;
    let families = counts.families.into_iter();
    Ok(SubnetCounts {
        families: families
            .map(|(family, counts)| (family, Counts::from(counts)))
            .collect(),
        freed: shared.freed(counts.freed),
    })
}

/// A lease takes a unit of each family, so the family with the fewest left says how full the subnet
/// is. It includes leases made just before.
pub async fn utilization(
    State(shared): State<Arc<Shared>>,
    name: SubnetName,
) -> Result<Json<[Utilization; 1]>, ServiceError> {
    let _permit = shared.admit().await?;
    let counts = shared.allocator.counts(name.key()).await;
    let counts = counts.map_err(|error| ServiceError::of_allocator(error, &name))?;
    let fullest = scarcest(&counts.families).unwrap_or_default();
    Ok(Json([Utilization {
        timestamp: Time(Timestamp::now()),
        capacity: fullest.capacity.into(),
        reserved: fullest.reserved.into(),
    }]))
}

#[derive(Debug, Deserialize)]
pub struct Seen {
    seen: u64,
}

/// Answers when there is more to lease than at `seen`, and with the present state if that takes
/// long or the service stops.
pub async fn freed(
    State(shared): State<Arc<Shared>>,
    name: SubnetName,
    seen: Result<Query<Seen>, QueryRejection>,
) -> Result<Json<Freed>, ServiceError> {
    let Query(Seen { seen }) =
        seen.map_err(|error| ServiceError::invalid("seen", error.body_text()))?;
    let _place = shared.waiters.try_acquire().map_err(|_| ServiceError::busy())?;
    let _waiting = shared.metrics.waiting();
    let mut outlook = outlook(&shared, &name).await?;
    // Not "more than": a number from before a restart may be any.
    let waiting = outlook.wait_for(|outlook| shared.freed(outlook.freed) != seen);
    tokio::select! {
        more = waiting => drop(more.map_err(|_| ServiceError::no_subnet(&name))?),
        () = tokio::time::sleep(shared.limits.wait) => {}
        () = shared.stop.cancelled() => {}
    }
    let freed = shared.freed(outlook.borrow().freed);
    Ok(Json(Freed { freed }))
}

async fn outlook(
    shared: &Shared,
    name: &SubnetName,
) -> Result<watch::Receiver<Outlook>, ServiceError> {
    let outlook = shared.allocator.ledger().outlook(name.key()).await;
    outlook.ok_or_else(|| ServiceError::no_subnet(name))
}
