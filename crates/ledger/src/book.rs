//! The known blocks of one subnet, and every decision about them. Pure: requests in, changed blocks
//! out; nothing here writes or waits.
//!
//! Decisions change the book at once. The caller must write the changed blocks before it answers:
//! [`Book::changed`] returns them, and [`Book::settle`] takes the store's result of each write.

mod claims;
mod holdings;
mod misfit;
mod plan;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use berth_addr::{
    BlockNumber, ClaimError, Counts, Family, Layout, LayoutError, Plan, Pool, Prefix, Unit,
};

use crate::owner::Owner;
use crate::record::{BlockKey, LeaseId, Record, Tenure};
use crate::store::{Stored, Version, Write, Written};
pub use claims::{Claim, Claimed};
use holdings::Holdings;
pub use misfit::Misfit;
pub use plan::PlanError;

/// One lease: a unit of each family that was asked for, IPv4 first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub id: LeaseId,
    pub units: Vec<Prefix>,
}

/// What came of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// In the order of the request, including those that the owner had already.
    pub leases: Vec<Lease>,
    /// How many could not be given, because a family has no unit left.
    pub short: usize,
}

/// The place of a block. Block numbers count within a family.
type Place = (Family, BlockNumber);

/// A unit that is leased.
struct Entry {
    place: Place,
    offset: u8,
    id: LeaseId,
}

#[derive(Debug)]
pub struct Book {
    subnet: String,
    families: BTreeMap<Family, FamilyState>,
    holdings: Holdings,
    /// Blocks that are changed here and not in the store yet.
    changed: BTreeSet<Place>,
    /// Leases that others have taken out of the store although this ledger did not release them.
    vanished: BTreeSet<(Owner, LeaseId)>,
}

/// The blocks of one family.
#[derive(Debug)]
struct FamilyState {
    pool: Pool,
    blocks: BTreeMap<BlockNumber, Known>,
}

/// A block as it should be. `version` is that of the block in the store.
#[derive(Debug, Default)]
struct Known {
    version: Option<Version>,
    record: Arc<Record>,
}

impl Book {
    pub fn new(subnet: &str, plan: &Plan, reuse_delay: u64) -> Result<Self, LayoutError> {
        let state = |layout| FamilyState {
            pool: Pool::new(layout, reuse_delay),
            blocks: BTreeMap::new(),
        };
        let layouts = plan.layouts()?;
        Ok(Self {
            subnet: subnet.to_owned(),
            families: layouts
                .into_iter()
                .map(|(family, layout)| (family, state(layout)))
                .collect(),
            holdings: Holdings::default(),
            changed: BTreeSet::new(),
            vanished: BTreeSet::new(),
        })
    }

    pub fn families(&self) -> impl Iterator<Item = Family> {
        self.families.keys().copied()
    }

    /// Removes all that is known except the plan.
    pub fn clear(&mut self) {
        for state in self.families.values_mut() {
            let numbers: Vec<BlockNumber> = state.pool.blocks().map(|(number, _)| number).collect();
            for number in numbers {
                state.pool.forget(number);
            }
            state.blocks.clear();
        }
        self.holdings.clear();
        self.changed.clear();
    }

    /// Takes over a block as the store has it.
    pub fn load(&mut self, stored: &Stored, now: u64) -> Result<(), Misfit> {
        if let Some(place) = self.place(&stored.key) {
            self.note_vanished(place, &stored.record);
        }
        self.restore(&stored.key, Some(stored.version), &stored.record, now)
    }

    /// Whether the book has the block.
    pub fn knows(&self, key: &BlockKey) -> bool {
        self.place(key).and_then(|place| self.known(place)).is_some()
    }

    /// Applies a watched change, unless the book has this version or a newer one.
    pub fn apply(&mut self, stored: &Stored, now: u64) -> Result<(), Misfit> {
        let known = self.place(&stored.key).and_then(|place| self.known(place));
        if known.and_then(|known| known.version) >= Some(stored.version) {
            return Ok(());
        }
        self.load(stored, now)
    }

    /// Applies the watched removal of a block, unless the book knows that the block was made again
    /// since.
    pub fn apply_removal(&mut self, key: &BlockKey, version: Version) {
        let known = self.place(key).and_then(|place| self.known(place));
        if known.and_then(|known| known.version) <= Some(version) {
            self.forget(key);
        }
    }

    /// Removes a block that the store does not have.
    pub fn forget(&mut self, key: &BlockKey) {
        let Some(place) = self.place(key) else {
            return;
        };
        self.note_vanished(place, &Record::default());
        self.drop_owners(place);
        let (family, number) = place;
        if let Some(state) = self.families.get_mut(&family) {
            state.blocks.remove(&number);
            state.pool.forget(number);
        }
        self.changed.remove(&place);
    }

    /// Gives the owner a unit of each of `families` for every lease, for as many leases as
    /// possible: a lease is whole or not given at all. Units that the owner has under these ids are
    /// kept, so that asking twice gives the same.
    pub fn lease(
        &mut self,
        owner: &Owner,
        leases: &[LeaseId],
        families: &[Family],
        now: u64,
    ) -> Grant {
        let held = if self.holdings.may_have(owner, leases) {
            self.held_by_id(owner)
        } else {
            BTreeMap::new()
        };
        let had = |id: &LeaseId| held.get(id).map_or(&[][..], Vec::as_slice);
        let lacks =
            |id: &LeaseId, family: &Family| had(id).iter().all(|unit| unit.family() != *family);
        // The first leases get the available units; a lease that can't be whole takes none.
        let mut grant = Grant::default();
        let mut left: BTreeMap<Family, u128> = self.available().collect();
        let mut whole = Vec::new();
        for id in leases {
            let needs = || families.iter().filter(|family| lacks(id, family));
            if needs().all(|family| left.get(family).is_some_and(|left| *left > 0)) {
                for family in needs() {
                    left.entry(*family).and_modify(|left| *left -= 1);
                }
                whole.push(id);
            } else {
                grant.short += 1;
            }
        }
        let mut supply: Vec<(Family, VecDeque<Unit>)> = Vec::with_capacity(families.len());
        for family in families {
            let count = whole.iter().filter(|id| lacks(id, family)).count();
            let pool = self.families.get_mut(family).map(|state| &mut state.pool);
            let units = pool.map(|pool| pool.lease_up_to(count, now)).unwrap_or_default();
            debug_assert_eq!(units.len(), count, "the pool has what it says");
            supply.push((*family, units.into()));
        }
        let mut entered = Vec::new();
        for id in whole {
            let mut units = had(id).to_vec();
            for (family, supply) in supply.iter_mut().filter(|(family, _)| lacks(id, family)) {
                let Some(unit) = supply.pop_front() else {
                    continue;
                };
                units.extend(self.prefix(*family, unit));
                entered.push(Entry {
                    place: (*family, unit.block()),
                    offset: unit.offset(),
                    id: *id,
                });
            }
            units.sort_by_key(|unit| unit.family());
            grant.leases.push(Lease { id: *id, units });
        }
        self.enter(owner, entered, now);
        grant
    }

    /// Takes exactly these units under one lease: all, or none with the reason. Units that the
    /// owner has already are kept.
    pub fn claim(
        &mut self,
        owner: &Owner,
        id: LeaseId,
        units: &[Prefix],
        now: u64,
    ) -> Result<(), Refusal> {
        let mut places = Vec::new();
        for prefix in units {
            let refused = |error| Refusal { unit: *prefix, error };
            let state = self.families.get(&prefix.family());
            let unit = state.and_then(|state| state.pool.layout().unit(*prefix));
            let unit = unit.ok_or(refused(ClaimError::OutsidePool))?;
            let tenure = self.known((prefix.family(), unit.block()));
            let tenure = tenure.and_then(|known| known.record.tenure(unit.offset()));
            match tenure {
                Some(tenure) if tenure.owner == *owner => {}
                Some(_) => return Err(refused(ClaimError::Owned)),
                None => places.push((*prefix, unit)),
            }
        }
        for (at, (prefix, unit)) in places.iter().enumerate() {
            let state = self.families.get_mut(&prefix.family());
            let claimed =
                state.map_or(Err(ClaimError::OutsidePool), |state| state.pool.claim(*unit));
            if let Err(error) = claimed {
                for (prefix, unit) in &places[..at] {
                    self.put_back(prefix.family(), *unit);
                }
                return Err(Refusal { unit: *prefix, error });
            }
        }
        let entered = places.iter().map(|(prefix, unit)| Entry {
            place: (prefix.family(), unit.block()),
            offset: unit.offset(),
            id,
        });
        self.enter(owner, entered.collect(), now);
        Ok(())
    }

    /// Releases the owner's leases of these ids, or all of them. Ids that the owner does not have
    /// are ignored. Returns the released leases.
    pub fn release(&mut self, owner: &Owner, ids: Option<&[LeaseId]>, now: u64) -> Vec<Lease> {
        let mut back: BTreeMap<LeaseId, Vec<Prefix>> = BTreeMap::new();
        let places: Vec<Place> = match ids {
            Some(ids) if !self.holdings.may_have(owner, ids) => Vec::new(),
            _ => self.holdings.places(owner).collect(),
        };
        let ids: Option<BTreeSet<&LeaseId>> = ids.map(|ids| ids.iter().collect());
        let wanted = |id: &LeaseId| ids.as_ref().is_none_or(|ids| ids.contains(id));
        for place in places {
            let (family, number) = place;
            let Some(known) = self.known(place) else {
                continue;
            };
            let of_owner = known.record.owned().filter(|(_, tenure)| tenure.owner == *owner);
            let releasing = of_owner.filter(|(_, tenure)| wanted(&tenure.lease));
            let releasing: Vec<(u8, LeaseId)> =
                releasing.map(|(offset, tenure)| (offset, tenure.lease)).collect();
            if releasing.is_empty() {
                continue;
            }
            for (offset, id) in &releasing {
                back.entry(*id)
                    .or_default()
                    .extend(self.prefix(family, number.unit(*offset)));
            }
            let offsets: Vec<u8> = releasing.iter().map(|(offset, _)| *offset).collect();
            self.give_back(place, &offsets, now);
            self.holdings.leave(owner, releasing.iter().map(|(_, id)| (place, *id)));
        }
        back.into_iter().map(|(id, units)| Lease { id, units }).collect()
    }

    /// What an owner has, by lease.
    pub fn held(&self, owner: &Owner) -> Vec<Lease> {
        let held = self.held_by_id(owner);
        held.into_iter().map(|(id, units)| Lease { id, units }).collect()
    }

    pub fn owners(&self) -> impl Iterator<Item = &Owner> {
        self.holdings.owners()
    }

    pub fn owner_of(&self, unit: Prefix) -> Option<&Tenure> {
        let state = self.families.get(&unit.family())?;
        let unit_number = state.pool.layout().unit(unit)?;
        self.known((unit.family(), unit_number.block()))?
            .record
            .tenure(unit_number.offset())
    }

    pub fn counts(&self, now: u64) -> BTreeMap<Family, Counts> {
        let counts = |state: &FamilyState| state.pool.counts(now);
        self.families
            .iter()
            .map(|(family, state)| (*family, counts(state)))
            .collect()
    }

    /// How many can be leased, cooled down or not, by family.
    pub fn available(&self) -> impl Iterator<Item = (Family, u128)> {
        self.families
            .iter()
            .map(|(family, state)| (*family, state.pool.available()))
    }

    /// Marks blocks without owners and without cool-downs as changed: writing them removes them
    /// from the store. A subnet that never uses a unit twice, such as a /64, would otherwise fill
    /// the store.
    pub fn retire(&mut self, now: u64) {
        for (family, state) in &self.families {
            let idle = state.pool.idle(now).filter(|number| state.blocks.contains_key(number));
            self.changed.extend(idle.map(|number| (*family, number)));
        }
    }

    /// The writes that bring the store up to date with the book. They leave out cool-downs that are
    /// over.
    pub fn changed(&mut self, now: u64, reuse_delay: u64) -> Vec<Write> {
        let mut writes = Vec::with_capacity(self.changed.len());
        for place in std::mem::take(&mut self.changed) {
            let (family, number) = place;
            let Some(state) = self.families.get_mut(&family) else {
                continue;
            };
            let Some(first) = state.pool.layout().prefix(number.first_unit()) else {
                continue;
            };
            let Some(known) = state.blocks.get_mut(&number) else {
                continue;
            };
            if known
                .record
                .released()
                .any(|(_, at)| now.saturating_sub(at) >= reuse_delay)
            {
                Arc::make_mut(&mut known.record).forget_cooled_down(now, reuse_delay);
            }
            writes.push(Write {
                key: BlockKey {
                    subnet: self.subnet.clone(),
                    first,
                },
                expected: known.version,
                record: Some(Arc::clone(&known.record)),
            });
        }
        writes
    }

    /// Applies the store's result of a write. Returns whether the store has the block as the book
    /// has it; if not, the block must be read again.
    #[must_use]
    pub fn settle(&mut self, key: &BlockKey, written: &Written) -> bool {
        let Some(place) = self.place(key) else {
            return true;
        };
        let Written::Done(version) = written else {
            return false;
        };
        if let Some(known) = self.known_mut(place) {
            known.version = *version;
        }
        if version.is_none() {
            // The record was empty, so the store has removed the block.
            self.forget(key);
        }
        true
    }

    fn key(&self, first: Prefix) -> BlockKey {
        BlockKey {
            subnet: self.subnet.clone(),
            first,
        }
    }

    /// `None` for a block that this subnet does not have (any more).
    fn place(&self, key: &BlockKey) -> Option<Place> {
        let family = key.first.family();
        let unit = self.layout(family)?.unit(key.first)?;
        (unit.offset() == 0).then_some((family, unit.block()))
    }

    fn layout(&self, family: Family) -> Option<&Layout> {
        self.families.get(&family).map(|state| state.pool.layout())
    }

    fn prefix(&self, family: Family, unit: Unit) -> Option<Prefix> {
        self.layout(family)?.prefix(unit)
    }

    fn known(&self, (family, number): Place) -> Option<&Known> {
        self.families.get(&family)?.blocks.get(&number)
    }

    fn known_mut(&mut self, (family, number): Place) -> Option<&mut Known> {
        self.families.get_mut(&family)?.blocks.get_mut(&number)
    }

    fn restore(
        &mut self,
        key: &BlockKey,
        version: Option<Version>,
        record: &Arc<Record>,
        now: u64,
    ) -> Result<(), Misfit> {
        let misfit = || Misfit::new(key, record);
        let place = self.place(key).ok_or_else(misfit)?;
        let (family, number) = place;
        // A release time in the future, written by a clock that was ahead, must not prolong the
        // cool-down.
        let record = &if record.released().any(|(_, at)| at > now) {
            Arc::new(record.released_by(now))
        } else {
            Arc::clone(record)
        };
        self.drop_owners(place);
        let state = self.families.get_mut(&family).ok_or_else(misfit)?;
        let restored = state.pool.restore(number, record.owned_offsets(), record.released());
        restored.map_err(|_| misfit())?;
        for (_, tenure) in record.owned() {
            self.holdings.enter(&tenure.owner, [(place, tenure.lease)]);
        }
        let record = Arc::clone(record);
        state.blocks.insert(number, Known { version, record });
        self.changed.remove(&place);
        Ok(())
    }

    /// Removes the block's owners from the holdings, because the block is about to be replaced.
    fn drop_owners(&mut self, place: Place) {
        let Some(known) = self.known(place) else {
            return;
        };
        let record = Arc::clone(&known.record);
        for (_, tenure) in record.owned() {
            self.holdings.leave(&tenure.owner, [(place, tenure.lease)]);
        }
    }

    /// Writes the owner into the records; the pool has already leased the units.
    fn enter(&mut self, owner: &Owner, mut entries: Vec<Entry>, now: u64) {
        self.holdings
            .enter(owner, entries.iter().map(|entry| (entry.place, entry.id)));
        entries.sort_by_key(|entry| entry.place);
        for entries in entries.chunk_by(|one, other| one.place == other.place) {
            let Some((family, number)) = entries.first().map(|entry| entry.place) else {
                continue;
            };
            let tenure = |entry: &Entry| Tenure {
                owner: owner.clone(),
                lease: entry.id,
                since: now,
            };
            if let Some(state) = self.families.get_mut(&family) {
                let known = state.blocks.entry(number).or_default();
                let units = entries.iter().map(|entry| (entry.offset, tenure(entry)));
                Arc::make_mut(&mut known.record).take(units);
            }
            self.changed.insert((family, number));
        }
    }

    /// Removes owners from the record; the caller removes them from the holdings.
    fn give_back(&mut self, place: Place, offsets: &[u8], now: u64) {
        let (family, number) = place;
        let Some(state) = self.families.get_mut(&family) else {
            return;
        };
        let Some(known) = state.blocks.get_mut(&number) else {
            return;
        };
        Arc::make_mut(&mut known.record).give_back(offsets, now);
        let released = state.pool.release_all(number, offsets, now);
        debug_assert!(released.is_ok(), "the pool and the record say the same of every unit");
        self.changed.insert(place);
    }

    /// Returns a unit that was just taken from the pool and is in no record: it need not cool down.
    fn put_back(&mut self, family: Family, unit: Unit) {
        if let Some(state) = self.families.get_mut(&family) {
            let released = state.pool.release(unit, 0);
            debug_assert!(released.is_ok(), "it was taken from this pool");
        }
    }

    fn held_by_id(&self, owner: &Owner) -> BTreeMap<LeaseId, Vec<Prefix>> {
        let mut held: BTreeMap<LeaseId, Vec<Prefix>> = BTreeMap::new();
        for place in self.holdings.places(owner) {
            let Some(known) = self.known(place) else {
                continue;
            };
            for (offset, tenure) in
                known.record.owned().filter(|(_, tenure)| tenure.owner == *owner)
            {
                let unit = self.prefix(place.0, place.1.unit(offset));
                held.entry(tenure.lease).or_default().extend(unit);
            }
        }
        held
    }
}

/// A unit can't be claimed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{unit}: {error}")]
pub struct Refusal {
    pub unit: Prefix,
    pub error: ClaimError,
}
