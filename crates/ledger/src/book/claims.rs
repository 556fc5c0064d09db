//! Units that are known to have an owner, whatever the store says of them: after an old copy of the
//! store was restored, or a block was deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_addr::Prefix;

use super::{Book, Entry, Place};
use crate::owner::Owner;
use crate::record::{LeaseId, Record, Tenure};

/// One unit, and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub unit: Prefix,
    pub owner: Owner,
    /// The unit keeps this lease, because its owner knows it by that name.
    pub lease: LeaseId,
    /// The unit is taken from this owner, and from no other.
    pub from: Option<Owner>,
}

/// The outcome of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The owner already had it, under this or another lease.
    Had,
    /// It was free, or owned by the claim's `from`.
    Taken,
    /// Another owner has it and keeps it.
    Owned(Tenure),
    /// The subnet does not have it.
    Outside,
}

/// The records before everything is loaded again.
#[derive(Debug, Default)]
pub struct Before {
    blocks: BTreeMap<Place, Arc<Record>>,
}

impl Book {
    /// Applies one claim. A repeated claim finds the unit as it left it.
    pub fn restore_claim(&mut self, claim: &Claim, now: u64) -> Claimed {
        let family = claim.unit.family();
        let state = self.families.get(&family);
        let Some(unit) = state.and_then(|state| state.pool.layout().unit(claim.unit)) else {
            return Claimed::Outside;
        };
        let place = (family, unit.block());
        let tenure = self.known(place).and_then(|known| known.record.tenure(unit.offset()));
        match tenure.cloned() {
            Some(tenure) if tenure.owner == claim.owner => return Claimed::Had,
            Some(tenure) if claim.from.as_ref() != Some(&tenure.owner) => {
                return Claimed::Owned(tenure);
            }
            Some(tenure) => {
                self.give_back(place, &[unit.offset()], now);
                self.holdings.leave(&tenure.owner, [(place, tenure.lease)]);
            }
            None => {}
        }
        let entry = Entry {
            place,
            offset: unit.offset(),
            id: claim.lease,
        };
        self.enter(&claim.owner, vec![entry], now);
        // The pool's own claim would refuse a unit that the plan excludes by now; its owner keeps
        // it all the same.
        let Some(state) = self.families.get_mut(&family) else {
            return Claimed::Outside;
        };
        if let Some(known) = state.blocks.get(&unit.block()) {
            let (owned, released) = (known.record.owned_offsets(), known.record.released());
            let restored = state.pool.restore(unit.block(), owned, released);
            debug_assert!(restored.is_ok(), "the unit is in the layout");
        }
        Claimed::Taken
    }

    /// The leases that others have taken out of the store since the last call.
    pub fn take_vanished(&mut self) -> BTreeSet<(Owner, LeaseId)> {
        std::mem::take(&mut self.vanished)
    }

    /// Notes what vanishes when this record replaces the block.
    pub(super) fn note_vanished(&mut self, place: Place, next: &Record) {
        let Some(known) = self.known(place) else {
            return;
        };
        let record = Arc::clone(&known.record);
        self.vanished.extend(missing(&record, next));
    }

    /// A copy of the records, to compare with those that are loaded next.
    pub fn before(&self) -> Before {
        let blocks = self.families.iter().flat_map(|(family, state)| {
            let known = state.blocks.iter();
            known.map(|(number, known)| ((*family, *number), Arc::clone(&known.record)))
        });
        Before {
            blocks: blocks.collect(),
        }
    }

    /// Notes what vanished, once everything is loaded again.
    pub fn compare(&mut self, before: &Before) {
        let nothing = Record::default();
        let mut vanished = Vec::new();
        for (place, record) in &before.blocks {
            let next = self.known(*place).map_or(&nothing, |known| &known.record);
            vanished.extend(missing(record, next));
        }
        self.vanished.extend(vanished);
    }
}

/// The leases that the first record has and the second does not.
fn missing(record: &Record, next: &Record) -> Vec<(Owner, LeaseId)> {
    let gone = record
        .owned()
        .filter(|(offset, tenure)| !next.tenure(*offset).is_some_and(|next| next.is(tenure)));
    gone.map(|(_, tenure)| (tenure.owner.clone(), tenure.lease)).collect()
}
