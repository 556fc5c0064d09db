//! Which addresses an attachment gets.

use std::net::IpAddr;

use berth_addr::Family;
use berth_api::agent::{Reason, Refusal};

use super::Pool;
use super::units::State;
use crate::journal::Held;

impl Pool {
    /// Chooses the desired addresses, or one of each family: all or nothing. It takes none yet.
    pub(super) fn choose(&mut self, desired: &[IpAddr]) -> Result<Vec<Held>, Refusal> {
        if desired.is_empty() {
            self.choose_any()
        } else {
            desired.iter().map(|address| self.choose_exactly(*address)).collect()
        }
    }

    fn choose_exactly(&self, address: IpAddr) -> Result<Held, Refusal> {
        let taken =
            |why: &str| Refusal::new(Reason::Taken, format!("the desired address {address} {why}"));
        if let Some(owner) = self.owners.get(&address) {
            return Err(taken(&format!("is held by {owner}: ask for another, or for any")));
        }
        let free = match self.units.of(address) {
            Some(unit) => matches!(unit.state, State::Free { .. }),
            None if self.block_of(address).is_some() => {
                self.quarantine.allows_blocks() && !self.quarantine.covers(address)
            }
            None => return Err(taken("is not this node's: ask for one of its own, or for any")),
        };
        free.then(|| self.held_of(address))
            .ok_or_else(|| taken("is not free now: ask for another, or for any"))
    }

    fn choose_any(&mut self) -> Result<Vec<Held>, Refusal> {
        let mut needed = self.families.clone();
        if needed.is_empty() {
            return Err(empty(
                "the node has no network container yet; the controller gives it one",
            ));
        }
        let mut chosen: Vec<Held> = Vec::new();
        // A lease of both families is best. Otherwise each family gets one of its own, or one of a
        // lease that has more.
        let all: Vec<Family> = needed.iter().copied().collect();
        if let Some(unit) = self.units.longest_free(&all) {
            return Ok(unit.lease.held.clone());
        }
        for family in Family::ALL {
            if !needed.remove(&family) {
                continue;
            }
            if self.leased.contains(&family) {
                let unit = self
                    .units
                    .longest_free(&[family])
                    .or_else(|| self.units.longest_free(&Family::ALL));
                let unit = unit.ok_or_else(|| self.none_free(family))?;
                for held in &unit.lease.held {
                    needed.remove(&Family::of(held.address));
                    chosen.push(held.clone());
                }
            } else {
                let owners = &self.owners;
                let quarantine = &self.quarantine;
                let mut blocks = self.blocks.iter_mut().filter(|block| block.family() == family);
                let is_held =
                    |address: IpAddr| owners.contains_key(&address) || quarantine.covers(address);
                let settled = quarantine.allows_blocks();
                let found =
                    blocks.find_map(|block| block.longest_free(is_held).filter(|_| settled));
                let address = found.ok_or_else(|| self.none_free(family))?;
                chosen.push(self.held_of(address));
            }
        }
        Ok(chosen)
    }

    fn none_free(&self, family: Family) -> Refusal {
        if self.is_quarantined() {
            return empty(&format!(
                "no {family} address is free: the journal was lost, and it is being \
                 learned which ones pods have"
            ));
        }
        empty(&format!("no {family} address is free on this node; more are asked for"))
    }
}

fn empty(message: &str) -> Refusal {
    Refusal::new(Reason::PoolEmpty, message)
}
