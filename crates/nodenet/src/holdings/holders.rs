//! Which node an address belongs to if the ledger has no owner for it, or another one. Pure.

use std::collections::BTreeMap;
use std::fmt;

use berth_addr::Prefix;
use berth_ledger::Owner;

use super::{Holding, Use};

/// All holdings of one address, sorted by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    holders: Vec<Holding>,
}

/// Two nodes have one address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Conflict {
    pub unit: Prefix,
    pub owner: String,
    pub other: String,
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {} and {}", self.unit.first(), self.owner, self.other)
    }
}

/// Groups holdings by address. Reports of several observers about one node become one holding; a
/// lease name that the node knows goes before one that we made up.
pub fn by_unit(holdings: impl IntoIterator<Item = Holding>) -> BTreeMap<Prefix, Holders> {
    let mut units: BTreeMap<Prefix, Holders> = BTreeMap::new();
    for holding in holdings {
        let holders = &mut units.entry(holding.unit).or_default().holders;
        match holders.iter_mut().find(|known| known.nc == holding.nc) {
            Some(known) => {
                known.pod = known.pod.take().or(holding.pod);
                known.is_listed |= holding.is_listed;
            }
            None => holders.push(holding),
        }
    }
    for holders in units.values_mut() {
        holders.holders.sort_by(|one, other| one.nc.cmp(&other.nc));
    }
    units
}

impl Holders {
    /// Which node is to own the address: the ledger's owner, unless another node has a living pod
    /// with the address and the owner has none, or the owner does not have the address at all.
    pub fn winner(&self, owner: Option<&Owner>) -> Option<&Holding> {
        let holders = || self.holders.iter();
        let owns =
            |holding: &&Holding| owner.is_some_and(|owner| holding.owner().as_ref() == Ok(owner));
        let with_pod = || holders().filter(|holding| holding.pod.is_some());
        let ranked = with_pod().find(owns).or_else(|| with_pod().next());
        let ranked = ranked.or_else(|| holders().find(owns));
        // Of two nodes that only list it, the one that has it as its own address can't be moved.
        let primary = || holders().find(|holding| holding.use_ == Use::Primary);
        ranked.or_else(primary).or_else(|| holders().next())
    }

    /// The conflicts of the winner with all others that have the address.
    pub fn conflicts(&self, winner: &Holding) -> Vec<Conflict> {
        let others = self.holders.iter().filter(|holding| holding.nc != winner.nc);
        let conflict = |other: &Holding| Conflict {
            unit: winner.unit,
            owner: winner.nc.node.clone(),
            other: other.nc.node.clone(),
        };
        others.map(conflict).collect()
    }

    /// The conflicts if the ledger has another owner than the first choice: all others that have
    /// the address beside the one that is to own it.
    pub fn contested(&self, owner: &Owner, to: Option<&Holding>) -> Vec<Conflict> {
        let owns = |holding: &&Holding| holding.owner().as_ref() == Ok(owner);
        let winner = to.or_else(|| self.holders.iter().find(owns));
        match winner {
            Some(winner) => self.conflicts(winner),
            // An owner that is not one of our nodes has it, and keeps it.
            None => {
                let conflict = |holding: &Holding| Conflict {
                    unit: holding.unit,
                    owner: owner.to_string(),
                    other: holding.nc.node.clone(),
                };
                self.holders.iter().map(conflict).collect()
            }
        }
    }

    /// The pod no longer shows the address.
    pub fn without_pod(&mut self, pod: &str) {
        for holding in &mut self.holders {
            holding.pod.take_if(|shown| shown == pod);
        }
        // A node that had it by that pod alone no longer has it; a node that lists it does.
        self.holders
            .retain(|holding| holding.pod.is_some() || holding.is_listed);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::allocator::ContainerRef;

    fn holding(node: &str, lease: u128, pod: Option<&str>) -> Holding {
        Holding {
            unit: "10.0.0.5/32".parse().unwrap(),
            nc: ContainerRef {
                cluster: "c".to_owned(),
                node: node.to_owned(),
                uid: format!("uid-{node}"),
            },
            use_: Use::Secondary,
            lease: Uuid::from_u128(lease),
            is_listed: pod.is_none(),
            pod: pod.map(str::to_owned),
        }
    }

    fn holders(holdings: &[Holding]) -> Holders {
        by_unit(holdings.iter().cloned()).into_values().next().unwrap()
    }

    fn winner(holders: &Holders, owner: Option<&Holding>) -> String {
        let owner = owner.map(|owner| owner.owner().unwrap());
        holders.winner(owner.as_ref()).unwrap().nc.node.clone()
    }

    #[test]
    fn an_address_in_the_nnc_and_on_a_pod_is_one_holding() {
        let holders = holders(&[holding("n1", 1, None), holding("n1", 9, Some("d/a"))]);
        let only: Vec<&Holding> = holders.holders.iter().collect();
        assert_eq!(only.len(), 1);
        assert_eq!(
            (only[0].lease, only[0].pod.as_deref()),
            (Uuid::from_u128(1), Some("d/a"))
        );
        assert!(holders.conflicts(only[0]).is_empty());
    }

    #[test]
    fn a_living_pod_wins_over_a_list_and_over_the_ledger() {
        let (listed, shown) = (holding("n1", 1, None), holding("n2", 2, Some("d/a")));
        let both = holders(&[listed.clone(), shown.clone()]);
        assert_eq!(winner(&both, None), "n2");
        assert_eq!(winner(&both, Some(&listed)), "n2");
        assert_eq!(both.conflicts(&shown)[0].other, "n1");
    }

    #[test]
    fn of_two_with_pods_the_one_that_owns_it_stays() {
        let (one, other) = (holding("n1", 1, Some("d/a")), holding("n2", 2, Some("d/b")));
        let both = holders(&[one.clone(), other.clone()]);
        assert_eq!(winner(&both, Some(&other)), "n2");
        assert_eq!(winner(&both, Some(&one)), "n1");
        assert_eq!(winner(&both, None), "n1");
    }

    #[test]
    fn an_owner_that_does_not_have_it_loses_it() {
        let stranger = holding("n9", 9, None);
        assert_eq!(winner(&holders(&[holding("n1", 1, None)]), Some(&stranger)), "n1");
    }

    #[test]
    fn an_owner_without_a_node_conflicts_with_the_actual_holder() {
        let one = holders(&[holding("n1", 1, None)]);
        let owner = holding("n9", 9, None).owner().unwrap();
        let conflicts = one.contested(&owner, None);
        assert_eq!(
            (conflicts[0].owner.as_str(), conflicts[0].other.as_str()),
            (owner.to_string().as_str(), "n1")
        );
        let winner = holding("n1", 1, None);
        assert!(one.contested(&owner, Some(&winner)).is_empty());
    }
}
