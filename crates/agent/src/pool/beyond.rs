//! Addresses that pods have although they are not delivered any more. The map is updated with every
//! change, because it is read after every call and a node may run hundreds of pods.

use std::collections::BTreeMap;
use std::net::IpAddr;

use berth_api::nnc::IpAssignment;

use super::Pool;
use crate::journal::Held;

/// Their names.
pub(super) type Beyond = BTreeMap<IpAddr, String>;

impl Pool {
    /// In the order of addresses.
    pub fn held_beyond(&self) -> Vec<IpAssignment> {
        let assignment = |(address, name): (&IpAddr, &String)| IpAssignment {
            name: name.clone(),
            ip: address.to_string(),
        };
        self.beyond.iter().map(assignment).collect()
    }

    /// Called when an attachment gets the address.
    pub(super) fn note_held(&mut self, held: &Held) {
        if self.has(held.address) {
            self.beyond.remove(&held.address);
        } else {
            self.beyond.insert(held.address, held.name.clone());
        }
    }

    /// Called when the delivered addresses change.
    pub(super) fn look_beyond(&mut self) {
        let held = self.holdings.values().flat_map(|holding| &holding.held);
        let beyond = held.filter(|held| !self.has(held.address));
        self.beyond = beyond.map(|held| (held.address, held.name.clone())).collect();
    }
}
