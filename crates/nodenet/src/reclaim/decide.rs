//! Who is gone, and since when. Pure: the clock is handed in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_ledger::{Kind, Owner};
use tokio::time::Instant;

use crate::nnc;

/// An owner in a subnet.
pub type Place = (String, Owner);

/// Owners that look gone, and when that was first seen. A restart begins anew: that only makes it later.
#[derive(Debug, Default)]
pub struct Suspects {
    since: BTreeMap<Place, Instant>,
}

impl Suspects {
    /// All who look gone now: those who don't any more are cleared. Gives those who have looked so for the whole of the grace period.
    pub fn observe(&mut self, gone: BTreeSet<Place>, grace: Duration, now: Instant) -> Vec<Place> {
        self.since.retain(|place, _| gone.contains(place));
        for place in gone {
            self.since.entry(place).or_insert(now);
        }
        let due = self
            .since
            .iter()
            .filter(|(_, since)| now.saturating_duration_since(**since) >= grace);
        due.map(|(place, _)| place.clone()).collect()
    }

    /// When the next of them will have looked so for long enough.
    pub fn next(&self, grace: Duration, now: Instant) -> Option<Duration> {
        let left = self
            .since
            .values()
            .map(|since| grace.saturating_sub(now.saturating_duration_since(*since)));
        left.filter(|left| !left.is_zero()).min()
    }
}

/// Whether the owner is one that a Node and a config can speak for, in this cluster.
pub fn is_of_node(owner: &Owner, cluster: &str) -> bool {
    let kinds = [Kind::Primary, Kind::Secondary, Kind::NodeCidr];
    owner.cluster() == cluster && kinds.contains(&owner.kind())
}

/// Whether the two witnesses agree that the owner is gone: no Node of its UID, and no config that is that Node's or has its container.
pub fn is_gone(owner: &Owner, container: &str, node: Option<&str>, config: Option<&nnc::Facts>) -> bool {
    let node_speaks = node == Some(owner.uid());
    let config_speaks = config.is_some_and(|config| {
        let owned = matches!(&config.owner, nnc::Owner::Node { uid } if uid == owner.uid());
        owned || config.containers.iter().any(|id| id == container)
    });
    !node_speaks && !config_speaks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(cluster: &str, kind: Kind) -> Owner {
        Owner::new(kind, cluster, "n1", "uid-1").unwrap()
    }

    fn config(owner: Option<&str>, container: Option<&str>) -> nnc::Facts {
        let node = |uid: &str| nnc::Owner::Node { uid: uid.to_owned() };
        nnc::Facts {
            owner: owner.map_or(nnc::Owner::Nobody, node),
            containers: container.map(str::to_owned).into_iter().collect(),
            ..nnc::Facts::default()
        }
    }

    #[test]
    fn two_witnesses_must_agree() {
        let owner = owner("prod", Kind::Primary);
        assert!(is_gone(&owner, "c", None, None));
        assert!(is_gone(&owner, "c", Some("uid-2"), Some(&config(Some("uid-2"), None))));
        assert!(!is_gone(&owner, "c", Some("uid-1"), None));
        assert!(!is_gone(&owner, "c", None, Some(&config(Some("uid-1"), None))));
        assert!(!is_gone(&owner, "c", None, Some(&config(None, Some("c")))));
        assert!(is_gone(&owner, "c", None, Some(&config(None, None))));
    }

    #[test]
    fn owners_of_other_clusters_and_of_other_kinds_are_not_ours_to_judge() {
        assert!(is_of_node(&owner("prod", Kind::Secondary), "prod"));
        assert!(!is_of_node(&owner("test", Kind::Secondary), "prod"));
        assert!(!is_of_node(&owner("prod", Kind::Machine), "prod"));
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_taken_before_the_grace_period_is_over_in_one_piece() {
        let grace = Duration::from_secs(600);
        let place = ("pods".to_owned(), owner("prod", Kind::Primary));
        let gone = BTreeSet::from([place.clone()]);
        let mut suspects = Suspects::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(suspects.observe(gone.clone(), grace, at(0)).is_empty());
        assert!(suspects.observe(gone.clone(), grace, at(599)).is_empty());
        assert_eq!(suspects.next(grace, at(599)), Some(Duration::from_secs(1)));
        assert_eq!(suspects.observe(gone.clone(), grace, at(600)), [place]);
        // It came back, and left again.
        assert!(suspects.observe(BTreeSet::new(), grace, at(700)).is_empty());
        assert!(suspects.observe(gone.clone(), grace, at(800)).is_empty());
        assert!(suspects.observe(gone, grace, at(1399)).is_empty());
    }
}
