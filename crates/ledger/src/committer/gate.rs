//! Nothing new is leased to a cluster whose owners may have lost leases, until it has claimed them
//! back.
//!
//! If somebody deletes a block, edits one, or restores an old copy of the store, units look free
//! that pods have. The store can't say who has them; the cluster can. So every loss is counted for
//! the owner's cluster, and leases for it are refused until it says that it has claimed all known
//! units since that very loss.

use std::collections::{BTreeMap, BTreeSet};

use crate::owner::Owner;
use crate::record::LeaseId;

#[derive(Debug, Default)]
pub struct Gate {
    clusters: BTreeMap<String, State>,
}

#[derive(Debug)]
struct State {
    /// Goes up with every loss. It is 1 at the start, because earlier losses are not known.
    generation: u64,
    claimed: Option<u64>,
}

impl Gate {
    /// From now on leases for the cluster are refused until it has claimed.
    pub fn watch(&mut self, cluster: &str) -> u64 {
        let state = self.clusters.entry(cluster.to_owned());
        state
            .or_insert(State {
                generation: 1,
                claimed: None,
            })
            .generation
    }

    pub fn open(&mut self, cluster: &str, generation: u64) -> bool {
        let state = self.clusters.get_mut(cluster);
        state.is_none_or(|state| {
            let current = state.generation == generation;
            if current {
                state.claimed = Some(generation);
            }
            current
        })
    }

    pub fn record_losses(&mut self, vanished: &BTreeSet<(Owner, LeaseId)>) -> bool {
        let clusters: BTreeSet<String> = vanished.iter().map(|(owner, _)| owner.gate()).collect();
        let mut lost = false;
        for cluster in clusters {
            if let Some(state) = self.clusters.get_mut(&cluster) {
                state.generation += 1;
                lost = true;
            }
        }
        lost
    }

    pub fn is_open(&self, cluster: &str) -> bool {
        let state = self.clusters.get(cluster);
        state.is_none_or(|state| state.claimed == Some(state.generation))
    }

    /// By cluster, for the outlook.
    pub fn generations(&self) -> BTreeMap<String, u64> {
        let each = self.clusters.iter();
        each.map(|(cluster, state)| (cluster.clone(), state.generation))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::owner::Kind;

    fn lost(cluster: &str) -> BTreeSet<(Owner, LeaseId)> {
        let owner = Owner::new(Kind::Secondary, cluster, "n", "u").unwrap();
        BTreeSet::from([(owner, Uuid::nil())])
    }

    #[test]
    fn a_cluster_that_is_not_watched_is_let_through() {
        let mut gate = Gate::default();
        gate.record_losses(&lost("blue"));
        assert!(gate.is_open("blue"));
    }

    #[test]
    fn a_loss_closes_it_until_that_loss_is_claimed() {
        let mut gate = Gate::default();
        let first = gate.watch("blue");
        assert!(!gate.is_open("blue"));
        assert!(gate.open("blue", first) && gate.is_open("blue"));
        assert!(gate.record_losses(&lost("blue")) && !gate.is_open("blue"));
        assert!(!gate.open("blue", first) && !gate.is_open("blue"));
        let second = gate.watch("blue");
        assert!(gate.open("blue", second) && gate.is_open("blue"));
    }

    #[test]
    fn the_loss_of_one_cluster_is_not_that_of_another() {
        let mut gate = Gate::default();
        let generation = gate.watch("blue");
        gate.open("blue", generation);
        assert!(!gate.record_losses(&lost("green")) && gate.is_open("blue"));
    }
}
