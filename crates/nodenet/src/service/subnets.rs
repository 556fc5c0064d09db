//! Subnets: make known, forget, look at, and wait for what comes free.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use berth_api::allocator::{Freed, OwnerList, SubnetList, SubnetPlan, SubnetReport, Utilization};
use berth_ledger::Outlook;
use http::StatusCode;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Deserialize;
use tokio::sync::watch;

use super::name::{Network, SubnetName};
use super::refusal::Refusal;
use super::target::Caller;
use super::{Shared, body};
use crate::allocator::{Allocator, Registry, scarcest};

pub async fn set(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    name: SubnetName,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let plan: SubnetPlan = body::read(body, &shared.limits).await?;
    // With all that was left out, so that clusters that mean the same say the same.
    let plan = SubnetPlan::new(&plan.plan(), plan.reuse_delay());
    let permit = shared.admit().await?;
    let plans = shared.plans.clone();
    // To its end: one that is dropped between the ledger and the document would leave them
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
) -> Result<StatusCode, Refusal> {
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

/// Those of the caller's cluster, and of no other one; from the store, so that whoever is not named
/// has nothing.
pub async fn owners(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    name: SubnetName,
) -> Result<Json<OwnerList>, Refusal> {
    let _permit = shared.admit().await?;
    let refused = |error| Refusal::of_allocator(error, &name);
    let refreshed = shared.allocator.ledger().refresh(name.key()).await;
    refreshed.map_err(|error| refused(error.into()))?;
    let owners = shared.allocator.owners(name.key(), &caller.cluster).await;
    let owners = owners.map_err(refused)?.iter().map(ToString::to_string).collect();
    Ok(Json(OwnerList { owners }))
}

pub async fn get(
    State(shared): State<Arc<Shared>>,
    name: SubnetName,
) -> Result<Json<SubnetReport>, Refusal> {
    let _permit = shared.admit().await?;
    let planned = shared.plans.get(&name).await;
    let planned = planned.ok_or_else(|| Refusal::no_subnet(&name))?;
    let utilization = shared.allocator.utilization(name.key()).await;
    let utilization = utilization.map_err(|error| Refusal::of_allocator(error, &name))?;
    Ok(Json(SubnetReport {
        cluster: planned.cluster,
        plan: planned.plan,
        freed: shared.freed(utilization.freed),
        families: utilization
            .families
            .into_iter()
            .map(|(family, counts)| (family, counts.into()))
            .collect(),
    }))
}

/// A lease takes a unit of each family, so the family with the fewest left says how full the subnet
/// is.
pub async fn utilization(
    State(shared): State<Arc<Shared>>,
    name: SubnetName,
) -> Result<Json<[Utilization; 1]>, Refusal> {
    let _permit = shared.admit().await?;
    let outlook = outlook(&shared, &name).await?.borrow().clone();
    let fullest = scarcest(&outlook.counts).unwrap_or_default();
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

/// Answers when there is more to lease than at `seen`; and with what is known, when that takes long
/// or the service stops.
pub async fn freed(
    State(shared): State<Arc<Shared>>,
    name: SubnetName,
    seen: Result<Query<Seen>, QueryRejection>,
) -> Result<Json<Freed>, Refusal> {
    let Query(Seen { seen }) = seen.map_err(|error| Refusal::invalid("seen", error.body_text()))?;
    let _place = shared.waiters.try_acquire().map_err(|_| Refusal::busy())?;
    let _waiting = shared.metrics.waiting();
    let mut outlook = outlook(&shared, &name).await?;
    // Not "more than": a number from before a restart may be any.
    let waiting = outlook.wait_for(|outlook| shared.freed(outlook.freed) != seen);
    tokio::select! {
        more = waiting => drop(more.map_err(|_| Refusal::no_subnet(&name))?),
        () = tokio::time::sleep(shared.limits.wait) => {}
        () = shared.stop.cancelled() => {}
    }
    let freed = shared.freed(outlook.borrow().freed);
    Ok(Json(Freed { freed }))
}

async fn outlook(shared: &Shared, name: &SubnetName) -> Result<watch::Receiver<Outlook>, Refusal> {
    let outlook = shared.allocator.ledger().outlook(name.key()).await;
    outlook.ok_or_else(|| Refusal::no_subnet(name))
}
