//! Which owners are gone, and since when. Pure: the clock is passed in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use berth_ledger::{Kind, Owner};
use tokio::time::Instant;

use crate::facts::{NncFacts, NncOwner};

/// An owner in a subnet.
pub type Place = (String, Owner);

/// Owners that look gone, and when that was first observed. A restart starts over, which only
/// delays reclaim.
#[derive(Debug, Default)]
pub struct Suspects {
    since: BTreeMap<Place, Instant>,
}

impl Suspects {
    /// Takes all owners that look gone now, and clears those that no longer do. Returns since when
    /// each has.
    pub fn observe(&mut self, gone: BTreeSet<Place>, now: Instant) -> Vec<(Place, Instant)> {
        self.since.retain(|place, _| gone.contains(place));
        for place in gone {
            self.since.entry(place).or_insert(now);
        }
        self.since
            .iter()
            .map(|(place, since)| (place.clone(), *since))
            .collect()
    }
}

/// When an address comes back: its owner is gone since `since`, and no pod has shown it since
/// `unused`. `awaited`: others wait for addresses of the subnet, and no pod on the node waits for
/// one.
pub fn due_at(since: Instant, unused: Instant, grace: Duration, awaited: bool) -> Instant {
    if awaited {
        unused + grace
    } else {
        since.max(unused) + grace
    }
}

/// Whether the owner belongs to a node of this cluster, so that a Node and an nnc show whether it
/// exists.
pub fn is_of_node(owner: &Owner, cluster: &str) -> bool {
    let kinds = [Kind::Primary, Kind::Secondary, Kind::NodeCidr];
    owner.cluster() == cluster && kinds.contains(&owner.kind())
}

/// Whether the two observers agree that the owner is gone: no Node of its UID, and no nnc that is
/// that Node's or has its container.
pub fn has_left(
    owner: &Owner,
    container: &str,
    node: Option<&str>,
    nnc: Option<&NncFacts>,
) -> bool {
    let node_speaks = node == Some(owner.uid());
    let nnc_speaks = nnc.is_some_and(|nnc| {
        let owned = matches!(&nnc.owner, NncOwner::Node { uid } if uid == owner.uid());
        owned || nnc.containers.iter().any(|id| id == container)
    });
    !node_speaks && !nnc_speaks
}

/// Whether the owner's node is there and has its container in another subnet: it has moved, and
/// left something behind.
pub fn is_stray(owner: &Owner, subnet: &str, node: Option<&str>, nnc: Option<&NncFacts>) -> bool {
    let is_there = node == Some(owner.uid());
    let for_pods = matches!(owner.kind(), Kind::Primary | Kind::Secondary);
    let home = nnc.and_then(|nnc| nnc.pods_subnet.as_deref());
    is_there && for_pods && home.is_some_and(|home| home != subnet)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(cluster: &str, kind: Kind) -> Owner {
        Owner::new(kind, cluster, "n1", "uid-1").unwrap()
    }

    fn nnc(owner: Option<&str>, container: Option<&str>) -> NncFacts {
        let node = |uid: &str| NncOwner::Node { uid: uid.to_owned() };
        NncFacts {
            owner: owner.map_or(NncOwner::Nobody, node),
            containers: container.map(str::to_owned).into_iter().collect(),
            ..NncFacts::default()
        }
    }

    #[test]
    fn two_observers_must_agree() {
        let owner = owner("prod", Kind::Primary);
        assert!(has_left(&owner, "c", None, None));
        assert!(has_left(&owner, "c", Some("uid-2"), Some(&nnc(Some("uid-2"), None))));
        assert!(!has_left(&owner, "c", Some("uid-1"), None));
        assert!(!has_left(&owner, "c", None, Some(&nnc(Some("uid-1"), None))));
        assert!(!has_left(&owner, "c", None, Some(&nnc(None, Some("c")))));
        assert!(has_left(&owner, "c", None, Some(&nnc(None, None))));
    }

    #[test]
    fn owners_of_other_clusters_or_kinds_are_ignored() {
        assert!(is_of_node(&owner("prod", Kind::Secondary), "prod"));
        assert!(!is_of_node(&owner("test", Kind::Secondary), "prod"));
        assert!(!is_of_node(&owner("prod", Kind::Machine), "prod"));
    }

    #[test]
    fn what_a_node_left_in_another_subnet_is_stray() {
        let owner = owner("prod", Kind::Secondary);
        let in_subnet = |home: &str| NncFacts {
            pods_subnet: Some(home.to_owned()),
            ..NncFacts::default()
        };
        assert!(is_stray(&owner, "old", Some("uid-1"), Some(&in_subnet("new"))));
        assert!(!is_stray(&owner, "new", Some("uid-1"), Some(&in_subnet("new"))));
        assert!(!is_stray(&owner, "old", Some("uid-2"), Some(&in_subnet("new"))));
        assert!(!is_stray(&owner, "old", Some("uid-1"), None));
    }

    #[tokio::test(start_paused = true)]
    async fn reclaim_is_due_a_grace_period_after_node_and_pod_are_gone() {
        let (grace, start) = (Duration::from_secs(120), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(due_at(at(100), at(0), grace, false), at(220));
        assert_eq!(due_at(at(100), at(150), grace, false), at(270));
    }

    #[tokio::test(start_paused = true)]
    async fn where_others_wait_what_was_long_unused_comes_back_at_once() {
        let (grace, start) = (Duration::from_secs(120), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(due_at(at(500), at(0), grace, true), at(120));
        // A pod had it until a moment ago, and may still.
        assert_eq!(due_at(at(500), at(499), grace, true), at(619));
    }

    #[tokio::test(start_paused = true)]
    async fn an_owner_that_comes_back_is_no_suspect_any_more() {
        let place = ("pods".to_owned(), owner("prod", Kind::Primary));
        let gone = BTreeSet::from([place.clone()]);
        let mut suspects = Suspects::default();
        let start = Instant::now();
        let later = start + Duration::from_secs(60);
        assert_eq!(suspects.observe(gone.clone(), start), [(place.clone(), start)]);
        assert_eq!(suspects.observe(gone.clone(), later), [(place.clone(), start)]);
        assert!(suspects.observe(BTreeSet::new(), later).is_empty());
        assert_eq!(suspects.observe(gone, later), [(place, later)]);
    }
}
