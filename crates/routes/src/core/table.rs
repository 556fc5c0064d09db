//! What the backend has, as far as we know.

use std::collections::{BTreeMap, BTreeSet};

use berth_addr::Prefix;

use super::change::Change;
use super::route::{Hop, Mark, Route};

/// By destination: what was listed, and what we have changed since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    routes: BTreeMap<Prefix, Vec<Route>>,
    /// How many routes lead there.
    hops: BTreeMap<Hop, usize>,
}

impl Table {
    /// A backend that names one route twice has it once.
    pub fn new(listed: Vec<Route>) -> Self {
        let mut table = Self::default();
        for route in listed {
            if !table.get(route.destination).contains(&route) {
                table.insert(route);
            }
        }
        table
    }

    pub fn get(&self, destination: Prefix) -> &[Route] {
        self.routes.get(&destination).map_or(&[], Vec::as_slice)
    }

    pub fn destinations(&self) -> impl Iterator<Item = Prefix> {
        self.routes.keys().copied()
    }

    pub fn routes(&self) -> impl Iterator<Item = &Route> {
        self.routes.values().flatten()
    }

    /// Takes over a new list. Of destinations that were changed while the list was read, it may
    /// tell what was before or after: for those, what we know stays.
    pub fn replace(&mut self, listed: Vec<Route>, changed_meanwhile: &BTreeSet<Prefix>) {
        let mut fresh = Self::new(listed);
        for destination in changed_meanwhile {
            fresh.remove(*destination);
            for known in self.get(*destination) {
                fresh.insert(known.clone());
            }
        }
        *self = fresh;
    }

    /// A change that the backend has carried out.
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
