//! The routes of the backend, as far as we know.

use std::collections::{BTreeMap, BTreeSet};

use berth_addr::Prefix;

use super::change::Change;
use super::route::{Hop, Mark, Route};

/// Routes by destination: as last listed, with our changes since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    routes: BTreeMap<Prefix, Vec<Route>>,
    /// How many routes lead there.
    hops: BTreeMap<Hop, usize>,
}

impl Table {
    /// A route that the list contains twice is kept once.
    pub fn new(listed: Vec<Route>) -> Self {
        let mut table = Self::default();
        table.replace(listed, &BTreeSet::new());
        table
    }

    pub fn get(&self, destination: Prefix) -> &[Route] {
        self.routes.get(&destination).map_or(&[], Vec::as_slice)
    }

    /// In the order of destinations.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix, &[Route])> {
        let routes = self.routes.iter();
        routes.map(|(destination, routes)| (*destination, routes.as_slice()))
    }

    pub fn destinations(&self) -> impl Iterator<Item = Prefix> {
        self.routes.keys().copied()
    }

    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.values().flatten()
    }

    /// Replaces the routes by a new list. For destinations that changed while the list was read,
    /// the list may be older or newer than the change: these keep what is known.
    ///
    /// Walks both in the order of destinations, and touches only what differs.
    pub fn replace(&mut self, mut listed: Vec<Route>, changed_meanwhile: &BTreeSet<Prefix>) {
        listed.retain(|route| !changed_meanwhile.contains(&route.destination));
        listed.sort_by_key(|route| route.destination);
        let mut gone = Vec::new();
        let mut differ = Vec::new();
        let mut known = self.routes.iter().peekable();
        for group in listed.chunk_by(|one, next| one.destination == next.destination) {
            let Some(destination) = group.first().map(|route| route.destination) else {
                continue;
            };
            while let Some((before, _)) = known.next_if(|(known, _)| **known < destination) {
                gone.push(*before);
            }
            let there = known.next_if(|(known, _)| **known == destination);
            if !there.is_some_and(|(_, there)| same_routes(there, group)) {
                differ.push((destination, group));
            }
        }
        gone.extend(known.map(|(known, _)| *known));
        for destination in gone {
            if !changed_meanwhile.contains(&destination) {
                self.remove(destination);
            }
        }
        for (destination, group) in differ {
            self.remove(destination);
            for route in group {
                if !self.get(destination).contains(route) {
                    self.insert(route.clone());
                }
            }
        }
    }

    /// Applies a change that the backend has carried out.
    pub fn apply(&mut self, change: &Change, mark: Mark) {
        for route in self.remove(change.destination) {
            if !change.delete.contains(&route) {
                self.insert(route);
            }
        }
        if let Some(creation) = &change.create {
            self.insert(Route {
                destination: change.destination,
                hop: creation.hop.clone(),
                mark,
                usable: true,
            });
        }
    }

    pub fn leads_to(&self, hop: &Hop) -> bool {
        self.hops.contains_key(hop)
    }

    fn insert(&mut self, route: Route) {
        *self.hops.entry(route.hop.clone()).or_default() += 1;
        self.routes
            .entry(route.destination)
            .or_default()
            .push(route);
    }

    fn remove(&mut self, destination: Prefix) -> Vec<Route> {
        let routes = self.routes.remove(&destination).unwrap_or_default();
        for route in &routes {
            if let Some(count) = self.hops.get_mut(&route.hop) {
                *count -= 1;
                if *count == 0 {
                    self.hops.remove(&route.hop);
                }
            }
        }
        routes
    }
}

/// Ignores order and duplicates.
fn same_routes(one: &[Route], other: &[Route]) -> bool {
    one.iter().all(|route| other.contains(route)) && other.iter().all(|route| one.contains(route))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(third: u8, hop: u8) -> Route {
        Route {
            destination: format!("10.0.{third}.0/24").parse().unwrap(),
            hop: Hop::Address([192, 0, 2, hop].into()),
            mark: Mark::Ours,
            usable: true,
        }
    }

    /// The table itself, and how many routes lead to each hop.
    fn is(table: &Table, wanted: &[Route]) {
        let found: Vec<&Route> = table.routes().collect();
        assert_eq!(found, wanted.iter().collect::<Vec<_>>());
        for hop in 0..9 {
            let hop = Hop::Address([192, 0, 2, hop].into());
            let count = wanted.iter().filter(|route| route.hop == hop).count();
            assert_eq!(table.hops.get(&hop).copied().unwrap_or(0), count);
        }
    }

    #[test]
    fn a_new_list_is_taken_over_in_any_order() {
        let mut table = Table::new(vec![route(3, 1), route(1, 1), route(2, 1), route(2, 2)]);
        table.replace(
            vec![route(4, 3), route(2, 2), route(2, 1), route(1, 2)],
            &BTreeSet::new(),
        );
        is(
            &table,
            &[route(1, 2), route(2, 1), route(2, 2), route(4, 3)],
        );
    }

    #[test]
    fn a_route_that_is_named_twice_is_there_once() {
        let mut table = Table::new(vec![route(1, 1), route(2, 1), route(1, 1)]);
        is(&table, &[route(1, 1), route(2, 1)]);
        table.replace(
            vec![route(2, 1), route(2, 1), route(1, 1)],
            &BTreeSet::new(),
        );
        is(&table, &[route(1, 1), route(2, 1)]);
    }

    #[test]
    fn what_was_changed_meanwhile_stays_as_it_is_known() {
        let mut table = Table::new(vec![route(1, 1), route(2, 1)]);
        let meanwhile = BTreeSet::from([1, 2, 3].map(|third| route(third, 1).destination));
        table.replace(vec![route(1, 5), route(3, 1), route(4, 1)], &meanwhile);
        is(&table, &[route(1, 1), route(2, 1), route(4, 1)]);
    }
}
