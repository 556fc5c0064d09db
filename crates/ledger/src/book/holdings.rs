//! The blocks in which each owner has units, and the leases it may have, so that a request reads
//! only blocks that can hold its answer.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use super::Place;
use crate::owner::Owner;
use crate::record::LeaseId;

#[derive(Debug, Default)]
pub(super) struct Holdings {
    by_owner: HashMap<Owner, Held>,
}

/// Counts units. A lease has one unit of each family, in two blocks, and blocks come and go one at
/// a time.
#[derive(Debug, Default)]
struct Held {
    places: BTreeMap<Place, u32>,
    /// By a small part of the id, because a million of them must fit. Two ids may share that part,
    /// so the map says "perhaps" and "no", never "yes".
    leases: HashMap<u32, u32, BuildHasherDefault<AsItIs>>,
}

/// Marks come from hashes, so hashing them again would gain nothing. They are spread over all bits,
/// because a map uses the highest bits first.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, mark: u32) {
        self.0 = (self.0 ^ u64::from(mark)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Holdings {
    pub fn clear(&mut self) {
        self.by_owner.clear();
    }

    pub fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.by_owner.keys()
    }

    /// The blocks in which the owner has units.
    pub fn places(&self, owner: &Owner) -> impl Iterator<Item = Place> {
        let held = self.by_owner.get(owner);
        held.into_iter().flat_map(|held| held.places.keys().copied())
    }

    /// Whether the owner can have a unit under one of these leases. `false` is certain.
    pub fn may_have(&self, owner: &Owner, leases: &[LeaseId]) -> bool {
        let held = self.by_owner.get(owner);
        held.is_some_and(|held| leases.iter().any(|id| held.leases.contains_key(&mark(*id))))
    }

    pub fn enter(&mut self, owner: &Owner, units: impl IntoIterator<Item = (Place, LeaseId)>) {
        let mut units = units.into_iter().peekable();
        if units.peek().is_none() {
            return;
        }
        let held = self.by_owner.entry(owner.clone()).or_default();
        for (place, id) in units {
            *held.places.entry(place).or_default() += 1;
            *held.leases.entry(mark(id)).or_default() += 1;
        }
    }

    pub fn leave(&mut self, owner: &Owner, units: impl IntoIterator<Item = (Place, LeaseId)>) {
        let Some(held) = self.by_owner.get_mut(owner) else {
            return;
        };
        for (place, id) in units {
            if let Some(count) = held.places.get_mut(&place) {
                *count -= 1;
                if *count == 0 {
                    held.places.remove(&place);
                }
            }
            if let Some(count) = held.leases.get_mut(&mark(id)) {
                *count -= 1;
                if *count == 0 {
                    held.leases.remove(&mark(id));
                }
            }
        }
        if held.places.is_empty() {
            self.by_owner.remove(owner);
        }
    }
}

/// Ids are hashes or random except for six bits, so any part of them will do.
fn mark(id: LeaseId) -> u32 {
    let (high, low) = id.as_u64_pair();
    let [a, b, c, d, ..] = (high ^ low).to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

#[cfg(test)]
mod tests {
    use berth_addr::{Family, Plan};
    use uuid::Uuid;

    use super::*;
    use crate::owner::Kind;

    /// The first block of each family.
    fn places() -> [Place; 2] {
        let plan = Plan {
            cidrs: vec!["10.0.0.0/24".parse().unwrap(), "fd00::/64".parse().unwrap()],
            ..Plan::default()
        };
        let layouts = plan.layouts().unwrap();
        let first = |(family, first): (Family, &str)| {
            let unit = layouts[&family].unit(first.parse().unwrap()).unwrap();
            (family, unit.block())
        };
        [(Family::V4, "10.0.0.0/32"), (Family::V6, "fd00::/128")].map(first)
    }

    fn owner() -> Owner {
        Owner::new(Kind::Secondary, "c", "n", "u").unwrap()
    }

    #[test]
    fn a_lease_is_there_until_its_last_unit_has_gone() {
        let (mut holdings, id) = (Holdings::default(), Uuid::from_u128(77));
        let [v4, v6] = places();
        holdings.enter(&owner(), [(v4, id), (v6, id)]);
        holdings.leave(&owner(), [(v4, id)]);
        assert!(holdings.may_have(&owner(), &[id]));
        assert_eq!(holdings.places(&owner()).collect::<Vec<_>>(), [v6]);
        holdings.leave(&owner(), [(v6, id)]);
        assert!(!holdings.may_have(&owner(), &[id]));
        assert_eq!(holdings.owners().count(), 0);
    }

    #[test]
    fn ids_that_look_alike_are_counted_apart() {
        let (mut holdings, one) = (Holdings::default(), Uuid::from_u64_pair(1 << 40, 5));
        let other = Uuid::from_u64_pair(1 << 40, 6);
        assert_eq!(mark(one), mark(other));
        let [place, _] = places();
        holdings.enter(&owner(), [(place, one), (place, other)]);
        holdings.leave(&owner(), [(place, one)]);
        assert!(holdings.may_have(&owner(), &[other]));
    }
}
