//! The leases that the node has, each in one state, and the free ones in the order in which they
//! are given out: longest free first.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use berth_addr::Family;

use super::delivered::Lease;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Free since this time; 0 if no attachment here has had it.
    Free {
        since: u64,
    },
    Held,
    /// Being given back to the subnet: no pod here gets it any more.
    Releasing,
    /// A pod may have it: not given out until that is known.
    Quarantined,
}

#[derive(Clone, Debug)]
pub struct Unit {
    pub lease: Lease,
    /// The network container that delivers it.
    pub container: String,
    pub state: State,
}

/// By the families of their leases.
type Free = BTreeMap<Vec<Family>, BTreeSet<(u64, IpAddr)>>;

/// How many units are in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub free: u64,
    pub held: u64,
    pub releasing: u64,
    pub quarantined: u64,
}

impl Tally {
    fn of(&mut self, state: State) -> &mut u64 {
        match state {
            State::Free { .. } => &mut self.free,
            State::Held => &mut self.held,
            State::Releasing => &mut self.releasing,
            State::Quarantined => &mut self.quarantined,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Units {
    /// Updated with every change, because every call reads it.
    tally: Tally,
    by_name: BTreeMap<String, Unit>,
    name_of: BTreeMap<IpAddr, String>,
    free: Free,
}

impl Units {
    pub fn get(&self, name: &str) -> Option<&Unit> {
        self.by_name.get(name)
    }

    /// The unit with this address.
    pub fn of(&self, address: IpAddr) -> Option<&Unit> {
        self.by_name.get(self.name_of.get(&address)?)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Unit> {
        self.by_name.values()
    }

    /// Adds a unit, or replaces its container or state. A lease keeps its addresses under one name;
    /// should they differ, the old ones go.
    pub fn put(&mut self, unit: Unit) {
        let name = unit.lease.name().to_owned();
        self.remove(&name);
        for held in &unit.lease.held {
            self.name_of.insert(held.address, name.clone());
        }
        if let (State::Free { since }, Some((families, first))) = (unit.state, key(&unit.lease)) {
            self.free.entry(families).or_default().insert((since, first));
        }
        *self.tally.of(unit.state) += 1;
        self.by_name.insert(name, unit);
    }

    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// How many free units came free after `since`.
    pub fn free_after(&self, since: u64) -> u64 {
        let later = |free: &BTreeSet<(u64, IpAddr)>| {
            free.iter().rev().take_while(|(at, _)| *at > since).count()
        };
        let count: usize = self.free.values().map(later).sum();
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    pub fn set(&mut self, name: &str, state: State) {
        if let Some(unit) = self.by_name.get(name).filter(|unit| unit.state != state) {
            let unit = Unit { state, ..unit.clone() };
            self.put(unit);
        }
    }

    pub fn remove(&mut self, name: &str) -> Option<Unit> {
        let unit = self.by_name.remove(name)?;
        *self.tally.of(unit.state) -= 1;
        for held in &unit.lease.held {
            if self.name_of.get(&held.address).is_some_and(|of| of == name) {
                self.name_of.remove(&held.address);
            }
        }
        if let (State::Free { since }, Some((families, first))) = (unit.state, key(&unit.lease))
            && let Some(free) = self.free.get_mut(&families)
        {
            free.remove(&(since, first));
        }
        Some(unit)
    }

    /// Of the units with exactly these families, the one that has been free for longest.
    pub fn longest_free(&self, families: &[Family]) -> Option<&Unit> {
        let (_, first) = self.free.get(families)?.first()?;
        self.of(*first)
    }

    /// The free units, latest first: those that came free last are the first to go back to the
    /// subnet.
    pub fn latest_free(&self) -> impl Iterator<Item = &Unit> {
        let mut free: Vec<(u64, IpAddr)> = self.free.values().flatten().copied().collect();
        free.sort_unstable_by(|one, other| other.cmp(one));
        free.into_iter().filter_map(|(_, first)| self.of(first))
    }
}

/// The key of a lease among the free ones.
fn key(lease: &Lease) -> Option<(Vec<Family>, IpAddr)> {
    let families: BTreeSet<Family> =
        lease.held.iter().map(|held| Family::of(held.address)).collect();
    Some((families.into_iter().collect(), lease.held.first()?.address))
}
