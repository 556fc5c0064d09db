//! The requests to a committer.

use std::time::Duration;

use berth_addr::{Family, Plan, Prefix};
use tokio::sync::oneshot;

use crate::book::{Claim, Claimed, Grant, Lease, PlanError, Refusal};
use crate::error::LedgerError;
use crate::owner::Owner;
use crate::record::{LeaseId, Tenure};

pub type Answer<T> = oneshot::Sender<Result<T, LedgerError>>;

/// A request to a committer.
#[derive(Debug)]
pub enum Request {
    Lease {
        owner: Owner,
        leases: Vec<LeaseId>,
        families: Option<Vec<Family>>,
        answer: Answer<Grant>,
    },
    Claim {
        owner: Owner,
        lease: LeaseId,
        units: Vec<Prefix>,
        answer: Answer<Result<(), Refusal>>,
    },
    /// Each claim stands by itself.
    Restore {
        claims: Vec<Claim>,
        answer: Answer<Vec<Claimed>>,
    },
    Release {
        owner: Owner,
        leases: Option<Vec<LeaseId>>,
        answer: Answer<Vec<Lease>>,
    },
    /// How often this cluster's owners have lost leases to others. From now on nothing is leased to
    /// the cluster until it has claimed them back.
    Gate {
        cluster: String,
        answer: Answer<u64>,
    },
    /// The cluster has claimed all that it lost. Answers `false` if it has lost more since
    /// `generation`.
    Open {
        cluster: String,
        generation: u64,
        answer: Answer<bool>,
    },
    Held {
        owner: Owner,
        answer: Answer<Vec<Lease>>,
    },
    Owners {
        answer: Answer<Vec<Owner>>,
    },
    OwnersOf {
        units: Vec<Prefix>,
        answer: Answer<Vec<Option<Tenure>>>,
    },
    /// Loads everything from the store again.
    Refresh {
        answer: Answer<()>,
    },
    Plan {
        plan: Plan,
        reuse_delay: Duration,
        answer: Answer<Result<(), PlanError>>,
    },
    /// Closes the subnet if it has no owners. Answers how many it has.
    Close {
        answer: Answer<usize>,
    },
}

impl Request {
    pub fn fail(self, error: &LedgerError) {
        let error = error.clone();
        match self {
            Self::Lease { answer, .. } => drop(answer.send(Err(error))),
            Self::Claim { answer, .. } => drop(answer.send(Err(error))),
            Self::Restore { answer, .. } => drop(answer.send(Err(error))),
            Self::Release { answer, .. } => drop(answer.send(Err(error))),
            Self::Gate { answer, .. } => drop(answer.send(Err(error))),
            Self::Open { answer, .. } => drop(answer.send(Err(error))),
            Self::Held { answer, .. } => drop(answer.send(Err(error))),
            Self::Owners { answer } => drop(answer.send(Err(error))),
            Self::OwnersOf { answer, .. } => drop(answer.send(Err(error))),
            Self::Refresh { answer } => drop(answer.send(Err(error))),
            Self::Plan { answer, .. } => drop(answer.send(Err(error))),
            Self::Close { answer } => drop(answer.send(Err(error))),
        }
    }
}
