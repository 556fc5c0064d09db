//! What a committer is asked.

use std::time::Duration;

use berth_addr::{Family, Plan, Prefix};
use tokio::sync::oneshot;

use crate::book::{Grant, Lease, PlanError, Refusal};
use crate::ledger::LedgerError;
use crate::owner::Owner;
use crate::record::{LeaseId, Tenure};

pub type Answer<T> = oneshot::Sender<Result<T, LedgerError>>;

/// What a committer is asked to do.
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
    Release {
        owner: Owner,
        leases: Option<Vec<LeaseId>>,
        answer: Answer<Vec<Lease>>,
    },
    Held {
        owner: Owner,
        answer: Answer<Vec<Lease>>,
    },
    Owners {
        answer: Answer<Vec<Owner>>,
    },
    OwnerOf {
        unit: Prefix,
        answer: Answer<Option<Tenure>>,
    },
    /// Everything from the store again.
    Refresh {
        answer: Answer<()>,
    },
    Plan {
        plan: Plan,
        reuse_delay: Duration,
        answer: Answer<Result<(), PlanError>>,
    },
    /// No more, if nobody owns anything. How many do.
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
            Self::Release { answer, .. } => drop(answer.send(Err(error))),
            Self::Held { answer, .. } => drop(answer.send(Err(error))),
            Self::Owners { answer } => drop(answer.send(Err(error))),
            Self::OwnerOf { answer, .. } => drop(answer.send(Err(error))),
            Self::Refresh { answer } => drop(answer.send(Err(error))),
            Self::Plan { answer, .. } => drop(answer.send(Err(error))),
            Self::Close { answer } => drop(answer.send(Err(error))),
        }
    }
}
