//! Units that somebody is known to have, whatever the store says of them: after a copy of the store
//! was put back, or a block was deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_addr::Prefix;

use super::{Book, Entry, Place};
use crate::owner::Owner;
use crate::record::{LeaseId, Record, Tenure};

/// One unit, and who has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub unit: Prefix,
    pub owner: Owner,
    /// Kept, so that the unit goes by the name that its holder knows.
    pub lease: LeaseId,
    /// The unit is taken from this owner, and from no other.
    pub from: Option<Owner>,
}

/// What came of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// The owner has it, under this or another lease.
    Had,
    /// It was free, or of the owner that the claim names.
    Taken,
    /// Another owner has it and keeps it.
    Owned(Tenure),
    /// The subnet does not have it.
    Outside,
}

/// What was owned before everything is loaded again.
#[derive(Debug, Default)]
pub struct Before {
    blocks: BTreeMap<Place, Arc<Record>>,
}

impl Book {
    /// Each by itself. Asked again, it finds what it did.
    pub fn restore_claim(&mut self, claim: &Claim, now: u64) -> Claimed {
        let family = claim.unit.family();
        let shelf = self.families.get(&family);
        let Some(unit) = shelf.and_then(|shelf| shelf.pool.layout().unit(claim.unit)) else {
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
        // Not by the pool's own claim: a unit that the plan excludes by now has a holder all the
        // same, and it stays that holder's.
        let Some(shelf) = self.families.get_mut(&family) else {
            return Claimed::Outside;
        };
        if let Some(known) = shelf.blocks.get(&unit.block()) {
            let (owned, released) = (known.record.owned_offsets(), known.record.released());
            let restored = shelf.pool.restore(unit.block(), owned, released);
            debug_assert!(restored.is_ok(), "the unit is in the layout");
        }
        Claimed::Taken
    }

    /// What others have taken out of the store since this was asked last.
    pub fn take_vanished(&mut self) -> BTreeSet<(Owner, LeaseId)> {
        std::mem::take(&mut self.vanished)
    }

    /// The block is about to be replaced by this record.
    pub(super) fn note_vanished(&mut self, place: Place, next: &Record) {
        let Some(known) = self.known(place) else {
            return;
        };
        let record = Arc::clone(&known.record);
        self.vanished.extend(missing(&record, next));
    }

    /// To be compared with what is loaded.
    pub fn before(&self) -> Before {
        let blocks = self.families.iter().flat_map(|(family, shelf)| {
            let known = shelf.blocks.iter();
            known.map(|(number, known)| ((*family, *number), Arc::clone(&known.record)))
        });
        Before {
            blocks: blocks.collect(),
        }
    }

    /// After everything was loaded: what was owned before and is not any more.
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

/// What the first has and the second does not.
fn missing(record: &Record, next: &Record) -> Vec<(Owner, LeaseId)> {
    let gone = record
        .owned()
        .filter(|(offset, tenure)| !next.tenure(*offset).is_some_and(|next| next.is(tenure)));
    gone.map(|(_, tenure)| (tenure.owner.clone(), tenure.lease)).collect()
}
