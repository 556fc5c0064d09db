//! A request that writes, from its decision to its answer.

use berth_addr::{Family, Prefix};

use super::request::Answer;
use crate::book::{Book, Claim, Claimed, Grant, Lease, Refusal};
use crate::error::LedgerError;
use crate::owner::Owner;
use crate::record::LeaseId;

/// A request that writes, and its result. Kept until its writes are durable.
pub enum Writing {
    Lease {
        owner: Owner,
        leases: Vec<LeaseId>,
        families: Vec<Family>,
        grant: Grant,
        answer: Answer<Grant>,
    },
    Claim {
        owner: Owner,
        lease: LeaseId,
        units: Vec<Prefix>,
        claimed: Result<(), Refusal>,
        answer: Answer<Result<(), Refusal>>,
    },
    Restore {
        claims: Vec<Claim>,
        claimed: Vec<Claimed>,
        answer: Answer<Vec<Claimed>>,
    },
    Release {
        owner: Owner,
        leases: Option<Vec<LeaseId>>,
        released: Vec<Lease>,
        answer: Answer<Vec<Lease>>,
    },
}

impl Writing {
    /// Decides the request, again if the store refused some of its writes: what is already written
    /// stays, and is part of the result.
    pub fn decide(&mut self, book: &mut Book, now: u64) {
        match self {
            Self::Lease {
                owner,
                leases,
                families,
                grant,
                ..
            } => *grant = book.lease(owner, leases, families, now),
            Self::Claim {
                owner,
                lease,
                units,
                claimed,
                ..
            } => *claimed = book.claim(owner, *lease, units, now),
            Self::Restore { claims, claimed, .. } => {
                let again = claims.iter().map(|claim| book.restore_claim(claim, now)).collect();
                let before = std::mem::replace(claimed, again);
                // The owner has it because of an earlier attempt.
                for (now, before) in claimed.iter_mut().zip(before) {
                    if *now == Claimed::Had && before == Claimed::Taken {
                        *now = Claimed::Taken;
                    }
                }
            }
            Self::Release {
                owner,
                leases,
                released,
                ..
            } => {
                let back = book.release(owner, leases.as_deref(), now);
                // Leases that an earlier attempt released are not released again, unless that
                // attempt was refused.
                released.retain(|lease| back.iter().all(|other| other.id != lease.id));
                released.extend(back);
            }
        }
    }

    /// Sends the result. The caller may be gone; a repeated request finds what is durable.
    pub fn answer(self) {
        match self {
            Self::Lease { grant, answer, .. } => drop(answer.send(Ok(grant))),
            Self::Claim { claimed, answer, .. } => drop(answer.send(Ok(claimed))),
            Self::Restore { claimed, answer, .. } => drop(answer.send(Ok(claimed))),
            Self::Release { released, answer, .. } => drop(answer.send(Ok(released))),
        }
    }

    pub fn fail(self, error: &LedgerError) {
        let error = error.clone();
        match self {
            Self::Lease { answer, .. } => drop(answer.send(Err(error))),
            Self::Claim { answer, .. } => drop(answer.send(Err(error))),
            Self::Restore { answer, .. } => drop(answer.send(Err(error))),
            Self::Release { answer, .. } => drop(answer.send(Err(error))),
        }
    }

    /// Whether this request decides about the lease: then the lease was not in the store yet, and
    /// can't have been lost.
    pub fn decides_on(&self, owner: &Owner, id: LeaseId) -> bool {
        match self {
            Self::Lease { owner: of, leases, .. } => of == owner && leases.contains(&id),
            Self::Claim { owner: of, lease, .. } => of == owner && *lease == id,
            Self::Restore { claims, .. } => {
                claims.iter().any(|claim| claim.owner == *owner && claim.lease == id)
            }
            Self::Release { .. } => false,
        }
    }

    /// The gate that must be open for this request, if it leases anything new.
    pub fn leases_for(&self) -> Option<String> {
        match self {
            Self::Lease { owner, .. } => Some(owner.gate()),
            Self::Claim { .. } | Self::Restore { .. } | Self::Release { .. } => None,
        }
    }
}
