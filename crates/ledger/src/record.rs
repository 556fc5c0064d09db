//! What a store keeps of a block: the owner and the lease of each owned unit, and the release times
//! of others.

use berth_addr::{Bitmap, Prefix};
use uuid::Uuid;

use crate::owner::Owner;

/// The name of one tenure of one unit. Never used again; in a NodeNetworkConfig it is the name of
/// the address.
pub type LeaseId = Uuid;

/// Who has a unit, and under which lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenure {
    pub owner: Owner,
    pub lease: LeaseId,
    /// When it began, in milliseconds since the epoch; 0 if it was written by an older version,
    /// which did not keep the time.
    pub since: u64,
}

impl Tenure {
    /// Whether it is the same tenure, regardless of `since`.
    pub fn is(&self, other: &Self) -> bool {
        self.owner == other.owner && self.lease == other.lease
    }
}

/// The content of a block. Both lists are sorted by offset, and no offset is in both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    owned: Vec<(u8, Tenure)>,
    /// In milliseconds since the epoch.
    released: Vec<(u8, u64)>,
}

/// An offset is both owned and released, or is listed twice: no ledger writes such a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset} is listed twice")]
pub struct Contradiction {
    pub offset: u8,
}

impl Record {
    pub fn new(
        owned: impl IntoIterator<Item = (u8, Tenure)>,
        released: impl IntoIterator<Item = (u8, u64)>,
    ) -> Result<Self, Contradiction> {
        let mut owned: Vec<(u8, Tenure)> = owned.into_iter().collect();
        let mut released: Vec<(u8, u64)> = released.into_iter().collect();
        owned.sort_by_key(|(offset, _)| *offset);
        released.sort_by_key(|(offset, _)| *offset);
        let mut seen = Bitmap::EMPTY;
        let offsets = owned.iter().map(|(offset, _)| *offset);
        for offset in offsets.chain(released.iter().map(|(offset, _)| *offset)) {
            if seen.contains(offset) {
                return Err(Contradiction { offset });
            }
            seen.insert(offset);
        }
        Ok(Self { owned, released })
    }

    pub fn owned(&self) -> impl Iterator<Item = (u8, &Tenure)> {
        self.owned.iter().map(|(offset, tenure)| (*offset, tenure))
    }

    pub fn released(&self) -> impl Iterator<Item = (u8, u64)> {
        self.released.iter().copied()
    }

    pub fn owned_offsets(&self) -> Bitmap {
        self.owned.iter().map(|(offset, _)| *offset).collect()
    }

    /// Whether the record is empty, so that the block can be removed from the store.
    pub fn is_empty(&self) -> bool {
        self.owned.is_empty() && self.released.is_empty()
    }

    pub fn tenure(&self, offset: u8) -> Option<&Tenure> {
        let at = self.owned.binary_search_by_key(&offset, |(offset, _)| *offset);
        at.ok().and_then(|at| self.owned.get(at)).map(|(_, tenure)| tenure)
    }

    /// These units have an owner from now on, and do not cool down. A ledger never takes an owned
    /// unit; its tenure would be replaced.
    pub fn take(&mut self, units: impl IntoIterator<Item = (u8, Tenure)>) {
        let before = self.owned.len();
        self.owned.extend(units);
        let taken: Bitmap = self.owned.iter().skip(before).map(|(offset, _)| *offset).collect();
        self.released.retain(|(offset, _)| !taken.contains(*offset));
        // The sort is stable: of two tenures of one unit the later one comes second, and is kept.
        self.owned.sort_by_key(|(offset, _)| *offset);
        self.owned.dedup_by(|later, first| {
            let same = later.0 == first.0;
            if same {
                std::mem::swap(later, first);
            }
            same
        });
    }

    /// These units cool down from now on. Units without an owner stay as they are.
    pub fn give_back(&mut self, offsets: &[u8], now: u64) {
        let offsets: Bitmap = offsets.iter().copied().collect();
        let released = &mut self.released;
        self.owned.retain(|(offset, _)| {
            let leaves = offsets.contains(*offset);
            if leaves {
                released.push((*offset, now));
            }
            !leaves
        });
        released.sort_by_key(|(offset, _)| *offset);
    }

    /// The same record, with no release time after `now`.
    pub fn released_by(&self, now: u64) -> Self {
        let mut record = self.clone();
        for (_, at) in &mut record.released {
            *at = now.min(*at);
        }
        record
    }

    /// Forgets cool-downs that are over, so that a record does not grow with all that was ever
    /// released.
    pub fn forget_cooled_down(&mut self, now: u64, delay: u64) {
        self.released.retain(|(_, at)| now.saturating_sub(*at) < delay);
    }
}

/// The key of a block: its subnet and the prefix of its first unit. It is not the block's number,
/// because numbers change with the subnet's CIDRs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockKey {
    pub subnet: String,
    pub first: Prefix,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::Kind;

    fn tenure(name: &str) -> Tenure {
        Tenure {
            owner: Owner::new(Kind::Machine, "c", name, "").unwrap(),
            lease: Uuid::new_v5(&Uuid::NAMESPACE_OID, name.as_bytes()),
            since: 0,
        }
    }

    #[test]
    fn a_unit_is_owned_or_released_but_never_both() {
        let mut record = Record::default();
        record.take([(9, tenure("z")), (7, tenure("a"))]);
        record.give_back(&[7, 8], 100);
        record.give_back(&[7], 200);
        assert_eq!(record.released().collect::<Vec<_>>(), [(7, 100)]);
        record.take([(7, tenure("b"))]);
        assert_eq!(record.released().count(), 0);
        assert_eq!(record.owned().map(|(offset, _)| offset).collect::<Vec<_>>(), [7, 9]);
        assert_eq!(record.tenure(7), Some(&tenure("b")));
        record.take([(7, tenure("c"))]);
        assert_eq!((record.tenure(7), record.owned().count()), (Some(&tenure("c")), 2));
    }

    #[test]
    fn a_record_that_contradicts_itself_is_refused() {
        let error = Record::new([(3, tenure("a"))], [(3, 1)]).unwrap_err();
        assert_eq!(error, Contradiction { offset: 3 });
        assert!(Record::new([(3, tenure("a")), (3, tenure("b"))], []).is_err());
    }

    #[test]
    fn rests_that_are_over_are_forgotten() {
        let mut record = Record::new([], [(1, 1_000), (2, 5_000)]).unwrap();
        record.forget_cooled_down(6_000, 2_000);
        assert_eq!(record.released().collect::<Vec<_>>(), [(2, 5_000)]);
        assert!(!record.is_empty());
    }
}
