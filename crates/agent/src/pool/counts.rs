//! The pool for people, for metrics, and for its scaling.

use std::net::IpAddr;

use berth_addr::Family;
use berth_addr::scaling;
use berth_api::agent::{AddressLine, AddressState, PoolCounts};

use super::Pool;
use super::units::State;

impl Pool {
    /// Counts leases, and for blocks the addresses of their first family. A unit that came free
    /// less than `rest` ago cools down.
    pub fn counts(&self, now: u64, rest: u64) -> PoolCounts {
        let since = now.saturating_sub(rest);
        let tally = self.units.tally();
        let cooling_down = self.units.free_after(since);
        let mut counts = PoolCounts {
            free: tally.free.saturating_sub(cooling_down),
            cooling_down,
            assigned: tally.held,
            releasing: tally.releasing,
            quarantined: tally.quarantined,
        };
        let first = self.blocks.iter().map(super::blocks::Block::family).min();
        for block in self.blocks.iter().filter(|block| Some(block.family()) == first) {
            let cooling_down = block.freed_after(since);
            let held = self.owners.range(block.prefix.first()..=block.prefix.last()).count();
            let held = u64::try_from(held).unwrap_or(u64::MAX);
            let free = block.size().saturating_sub(held).saturating_sub(cooling_down);
            counts.assigned += held;
            counts.cooling_down += cooling_down;
            if self.quarantine.allows_blocks() {
                counts.free = counts.free.saturating_add(free);
            } else {
                counts.quarantined = counts.quarantined.saturating_add(free);
            }
        }
        counts
    }

    /// The formula's input: leases only, because a node's blocks neither grow nor shrink. A
    /// quarantined lease counts as assigned. `pods` need an address, and so do the attachments of
    /// the `refused_adds`.
    pub fn holding(&self, pods: u64, refused_adds: u64) -> scaling::Holding {
        let tally = self.units.tally();
        let attached = u64::try_from(self.holdings.len()).unwrap_or(u64::MAX);
        let attached = attached.saturating_add(tally.quarantined).saturating_add(refused_adds);
        scaling::Holding {
            demand: pods.max(attached),
            held: tally.free + tally.held + tally.quarantined,
            assigned: tally.held + tally.quarantined,
            pending_release: tally.releasing,
        }
    }

    /// Whether a network container has leases, which come and go: only such a pool is scaled.
    pub fn is_scaled(&self) -> bool {
        self.containers.iter().any(super::Container::has_leases)
    }

    /// Each address of the node's leases, and every other address that a pod has.
    pub fn lines(&self, now: u64, rest: u64) -> Vec<AddressLine> {
        let since = now.saturating_sub(rest);
        let leased = self.units.iter().flat_map(|unit| {
            let state = match unit.state {
                State::Free { since: at } if at > since => AddressState::CoolingDown,
                State::Free { .. } => AddressState::Free,
                State::Held => AddressState::Assigned,
                State::Releasing => AddressState::Releasing,
                State::Quarantined => AddressState::Quarantined,
            };
            unit.lease
                .held
                .iter()
                .map(move |held| (held.address, held.name.clone(), unit.container.clone(), state))
        });
        let others = self.owners.keys().filter(|address| self.units.of(**address).is_none());
        let others = others.map(|address| {
            let container = self.block_of(*address).map(|block| block.container.clone());
            (
                *address,
                String::new(),
                container.unwrap_or_default(),
                AddressState::Assigned,
            )
        });
        let line = |(address, name, container, state): (IpAddr, String, String, AddressState)| {
            let attachment = self.owners.get(&address);
            let pod = attachment
                .and_then(|attachment| self.holdings.get(attachment))
                .map(|holding| &holding.pod);
            AddressLine {
                address,
                state,
                name,
                container,
                attachment: attachment.cloned(),
                pod: pod.filter(|pod| !pod.name.is_empty()).cloned(),
            }
        };
        let mut lines: Vec<AddressLine> = leased.chain(others).map(line).collect();
        lines.sort_by_key(|line| (Family::of(line.address), line.address));
        lines
    }
}
