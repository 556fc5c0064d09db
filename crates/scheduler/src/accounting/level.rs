//! How the nodes of one subnet share the addresses that no node has yet. Pure.
//!
//! Each node keeps what it has and what its pods use. The rest goes to the nodes with the least,
//! until all are at one level, as far as their limits allow. So a node whose pods use its promised
//! addresses, and whose agent fetches them, does not change the promise to any other node. Three
//! nodes with 1 each and 8 left get 4, 4 and 3, and keep that until some agent has more than 4.

/// The bounds of what one node may be promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What it has, or its pods use.
    pub floor: u64,
    /// The most that it may be promised.
    pub limit: u64,
}

impl Claim {
    fn at(self, level: u64) -> u64 {
        level.min(self.limit).max(self.floor)
    }

    /// Whether the node could be promised one more than at this level.
    fn may_exceed(self, level: u64) -> bool {
        self.at(level) == level && level < self.limit
    }
}

/// What each node is promised: in sum what they have plus what is left, or all their limits.
pub fn level(claims: &[Claim], left: u128) -> Vec<u64> {
    let lifts = |level: u64| -> u128 {
        let lift = |claim: &Claim| u128::from(claim.at(level) - claim.floor);
        claims.iter().map(lift).sum()
    };
    // The highest level that `left` is enough for.
    let highest = claims.iter().map(|claim| claim.limit).max().unwrap_or(0);
    let (mut low, mut high) = (0, highest);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if lifts(middle) <= left {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    let mut rest = left.saturating_sub(lifts(low));
    let promised = claims.iter().map(|claim| {
        let one_more = claim.may_exceed(low) && rest > 0;
        rest -= u128::from(one_more);
        claim.at(low) + u64::from(one_more)
    });
    promised.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claims(floors: &[u64], limit: u64) -> Vec<Claim> {
        floors.iter().map(|floor| Claim { floor: *floor, limit }).collect()
    }

    #[test]
    fn those_with_the_least_are_lifted_first() {
        assert_eq!(level(&claims(&[1, 1, 1], 99), 8), [4, 4, 3]);
        assert_eq!(level(&claims(&[6, 1, 1], 99), 3), [6, 3, 2]);
        assert_eq!(level(&claims(&[5, 5], 99), 0), [5, 5]);
        assert_eq!(level(&[], 8), [0; 0]);
    }

    #[test]
    fn whatever_a_node_takes_of_its_own_part_changes_nothing() {
        for taken in 0..=3 {
            let left = 8 - u128::from(taken);
            assert_eq!(level(&claims(&[1 + taken, 1, 1], 99), left), [4, 4, 3]);
        }
    }

    #[test]
    fn limits_hold_and_what_they_leave_goes_to_others() {
        let claims = [
            Claim { floor: 1, limit: 2 },
            Claim { floor: 9, limit: 4 },
            Claim { floor: 0, limit: 7 },
        ];
        assert_eq!(level(&claims, 6), [2, 9, 5]);
        assert_eq!(level(&claims, u128::MAX), [2, 9, 7]);
    }

    proptest! {
        #[test]
        fn together_it_is_never_more_than_there_is(
            pairs in prop::collection::vec((0..20_u64, 0..30_u64), 0..12),
            left in 0..200_u128,
        ) {
            let claims: Vec<Claim> =
                pairs.into_iter().map(|(floor, limit)| Claim { floor, limit }).collect();
            let promised = level(&claims, left);
            let sum = |of: fn(&Claim) -> u64| claims.iter().map(of).map(u128::from).sum::<u128>();
            let floors = sum(|claim| claim.floor);
            let most = sum(|claim| claim.limit.max(claim.floor));
            let given: u128 = promised.iter().copied().map(u128::from).sum();
            prop_assert_eq!(given, most.min(floors + left));
            for (claim, promised) in claims.iter().zip(promised) {
                prop_assert!(promised >= claim.floor && promised <= claim.limit.max(claim.floor));
            }
        }
    }
}
