//! What a cluster's nodes are known to have: claimed back after the store lost it.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use berth_api::allocator::{self as wire, ClaimList, ClaimedList, Generation, Opened};
use berth_ledger::{Claim, Claimed, Owner};

use super::error::ServiceError;
use super::name::SubnetName;
use super::target::Caller;
use super::{Shared, body};
use crate::allocator::Registry;

/// From now on the caller's cluster gets nothing new until it has claimed.
pub async fn generation(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    name: SubnetName,
) -> Result<Json<Generation>, ServiceError> {
    let _permit = shared.admit().await?;
    let generation = shared.allocator.generation(name.key(), &caller.cluster).await;
    let generation = generation.map_err(|error| ServiceError::of_allocator(error, &name))?;
    Ok(Json(Generation {
        generation: shared.freed(generation),
    }))
}

pub async fn open(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    name: SubnetName,
    body: Body,
) -> Result<Json<Opened>, ServiceError> {
    let Generation { generation } = body::read(body, &shared.limits).await?;
    let _permit = shared.admit().await?;
    // One from before a restart is not a number of ours.
    let generation = generation.saturating_sub(shared.began);
    let opened = shared
        .allocator
        .open_gate(name.key(), &caller.cluster, generation)
        .await;
    let opened = opened.map_err(|error| ServiceError::of_allocator(error, &name))?;
    Ok(Json(Opened { opened }))
}

pub async fn restore(
    State(shared): State<Arc<Shared>>,
    caller: Caller,
    name: SubnetName,
    body: Body,
) -> Result<Json<ClaimedList>, ServiceError> {
    let ClaimList { claims } = body::read(body, &shared.limits).await?;
    let claims = claims
        .iter()
        .map(|claim| read(claim, &caller))
        .collect::<Result<Vec<_>, _>>()?;
    let permit = shared.admit().await?;
    let restored = tokio::spawn({
        let shared = Arc::clone(&shared);
        async move {
            let _permit = permit;
            let settled = shared.plans.settled().await;
            settled.check(&name)?;
            let restored = shared.allocator.restore(name.key(), claims).await;
            restored.map_err(|error| ServiceError::of_allocator(error, &name))
        }
    });
    let claimed = shared.outcome(restored).await?;
    let claimed = claimed.into_iter().map(written).collect();
    Ok(Json(ClaimedList { claimed }))
}

fn read(claim: &wire::Claim, caller: &Caller) -> Result<Claim, ServiceError> {
    let owner = |text: &str| -> Result<Owner, ServiceError> {
        let owner: Owner = text
            .parse()
            .map_err(|error| ServiceError::invalid("claims.owner", error))?;
        if *owner.cluster() != *caller.cluster {
            return Err(ServiceError::wrong_cluster(&caller.cluster, owner.cluster()));
        }
        Ok(owner)
    };
    let lease = claim.lease.parse();
    Ok(Claim {
        unit: claim.unit,
        owner: owner(&claim.owner)?,
        lease: lease.map_err(|error| {
            ServiceError::invalid("claims.lease", format_args!("{error}: give a UUID"))
        })?,
        from: claim.from.as_deref().map(owner).transpose()?,
    })
}

fn written(claimed: Claimed) -> wire::Claimed {
    match claimed {
        Claimed::Had => wire::Claimed::Had,
        Claimed::Taken => wire::Claimed::Taken,
        Claimed::Outside => wire::Claimed::Outside,
        Claimed::Owned(tenure) => wire::Claimed::Owned {
            owner: tenure.owner.to_string(),
            lease: tenure.lease.to_string(),
        },
    }
}
