//! When a subnet counts as exhausted, and when its nodes are to keep no spare address. Pure.
//!
//! In an exhausted subnet each node asks for its demand and one more; while others wait for
//! addresses, for its demand alone. A subnet that left that state because there is room, and whose
//! nodes then ask for whole batches, would be exhausted at once again. So it leaves only when what
//! the nodes would ask for then is no more than what it may have: with unchanging pods it stays
//! where it is.
//!
//! For example a /26 with 61 addresses, two nodes with 20 pods each, batches of 16: without
//! exhaustion they ask for 32 each, 66 with their own two. That is more than 95 % of 61, so they
//! ask for 21 each and the subnet stays exhausted, although only 44 are in use.

use berth_addr::Counts;
use berth_addr::scaling::{self, Scaler};
use berth_api::subnet::Exhaustion;

use crate::facts::Requested;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    Enough,
    /// Nodes keep one spare address.
    Exhausted,
    /// Somebody waits for addresses: nodes keep no spare one.
    Awaited,
}

/// A node, and how many of its pods need an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeDemand {
    pub requested: Requested,
    pub pods: u64,
}

/// Sums over all nodes of a subnet, their own addresses included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// What they ask for.
    requested: u128,
    /// What they have.
    assigned: u128,
    /// What they would ask for in a subnet with enough.
    relaxed: u128,
    /// What they would ask for with one spare address each.
    spare: u128,
}

impl Demand {
    /// `starting` nodes wait for an address of their own. `was` is what nodes have been told, so it
    /// says what their requests mean.
    pub fn of(nodes: impl IntoIterator<Item = NodeDemand>, starting: usize, was: Fill) -> Self {
        let starting = u128::try_from(starting).unwrap_or(u128::MAX);
        let mut demand = Self {
            requested: starting,
            assigned: 0,
            relaxed: starting,
            spare: starting,
        };
        for NodeDemand { requested, pods } in nodes {
            let count = u64::try_from(requested.count).unwrap_or(0);
            let assigned = u64::try_from(requested.assigned).unwrap_or(0);
            let wire = requested.scaler.unwrap_or_default();
            let scaler = Scaler::from_wire(
                wire.batch_size,
                wire.request_threshold_percent,
                wire.max_ip_count,
            );
            let used = match was {
                Fill::Exhausted => count.saturating_sub(1),
                Fill::Enough | Fill::Awaited => count,
            };
            let used = used.max(pods);
            let add =
                |sum: &mut u128, leases: u64| *sum = sum.saturating_add(u128::from(leases) + 1);
            add(&mut demand.requested, count);
            add(&mut demand.assigned, assigned);
            add(
                &mut demand.relaxed,
                scaling::target(used, scaler, scaling::Supply::Enough),
            );
            add(
                &mut demand.spare,
                scaling::target(used, scaler, scaling::Supply::Exhausted),
            );
        }
        demand
    }
}

/// Numbers saturate and do not round: percent of a /64 needs no float.
pub fn fill(was: Fill, counts: Counts, demand: Demand, thresholds: Exhaustion) -> Fill {
    let share = |percent: i64| counts.capacity.saturating_mul(u128::try_from(percent).unwrap_or(0));
    // Addresses of nodes that are gone, and of other clusters: this controller can't reduce them.
    let others = counts.reserved.saturating_sub(demand.assigned);
    let with_others = |asked: u128| asked.saturating_add(others);
    let is_short = with_others(demand.requested) > counts.capacity;
    let above = |percent: i64| counts.reserved.saturating_mul(100) > share(percent);
    let fits = with_others(demand.relaxed).saturating_mul(100) <= share(thresholds.enter_percent);
    let below = counts.reserved.saturating_mul(100) < share(thresholds.leave_percent);
    match was {
        Fill::Enough if is_short || above(thresholds.enter_percent) => Fill::Exhausted,
        Fill::Enough => Fill::Enough,
        Fill::Exhausted | Fill::Awaited if fits && below => Fill::Enough,
        Fill::Exhausted if is_short => Fill::Awaited,
        Fill::Awaited if with_others(demand.spare) <= counts.capacity => Fill::Exhausted,
        Fill::Exhausted | Fill::Awaited => was,
    }
}

#[cfg(test)]
mod tests {
    use berth_api::nnc;

    use super::*;

    fn counts(capacity: u128, reserved: u128) -> Counts {
        Counts {
            capacity,
            reserved,
            cooling_down: 0,
            free: capacity - reserved,
        }
    }

    fn node(count: i64, assigned: i64, pods: u64) -> NodeDemand {
        let scaler = nnc::Scaler {
            batch_size: 16,
            request_threshold_percent: 50,
            release_threshold_percent: 150,
            max_ip_count: 250,
        };
        NodeDemand {
            requested: Requested {
                count,
                assigned,
                scaler: Some(scaler),
            },
            pods,
        }
    }

    fn next(was: Fill, capacity: u128, nodes: &[NodeDemand]) -> Fill {
        let reserved: i64 = nodes.iter().map(|node| node.requested.assigned + 1).sum();
        let demand = Demand::of(nodes.iter().copied(), 0, was);
        let counts = counts(capacity, u128::try_from(reserved).unwrap());
        fill(was, counts, demand, Exhaustion::default())
    }

    #[test]
    fn a_subnet_that_would_be_exhausted_again_stays_so() {
        // 44 of 61 are in use; without exhaustion it would be 66.
        assert_eq!(next(Fill::Exhausted, 61, &[node(21, 21, 20); 2]), Fill::Exhausted);
        // Two nodes with 8 pods each ask for 34, and that fits.
        assert_eq!(next(Fill::Exhausted, 61, &[node(9, 9, 8); 2]), Fill::Enough);
    }

    #[test]
    fn a_subnet_is_exhausted_above_the_threshold_or_on_shortage() {
        assert_eq!(next(Fill::Enough, 100, &[node(94, 94, 90)]), Fill::Enough);
        assert_eq!(next(Fill::Enough, 100, &[node(95, 95, 90)]), Fill::Exhausted);
        assert_eq!(next(Fill::Enough, 100, &[node(112, 90, 90)]), Fill::Exhausted);
    }

    #[test]
    fn while_somebody_waits_nobody_keeps_a_spare_one() {
        let full = [node(31, 31, 30), node(31, 28, 30)];
        assert_eq!(next(Fill::Exhausted, 61, &full), Fill::Awaited);
        // All have what they need, and one spare each would not fit.
        let served = [node(30, 30, 30), node(29, 29, 29)];
        assert_eq!(next(Fill::Awaited, 61, &served), Fill::Awaited);
        let smaller = [node(30, 30, 30), node(27, 27, 27)];
        assert_eq!(next(Fill::Awaited, 61, &smaller), Fill::Exhausted);
    }

    #[test]
    fn a_node_that_can_not_start_waits_too() {
        let demand = Demand::of([node(21, 21, 20)], 1, Fill::Exhausted);
        let counts = counts(22, 22);
        assert_eq!(
            fill(Fill::Exhausted, counts, demand, Exhaustion::default()),
            Fill::Awaited
        );
    }

    #[test]
    fn what_others_have_is_not_ours_to_ask_back() {
        let demand = Demand::of([node(9, 9, 8); 2], 0, Fill::Exhausted);
        let of_ours = fill(Fill::Exhausted, counts(61, 20), demand, Exhaustion::default());
        let with_others = fill(Fill::Exhausted, counts(61, 50), demand, Exhaustion::default());
        assert_eq!((of_ours, with_others), (Fill::Enough, Fill::Exhausted));
    }

    #[test]
    fn a_prefix_that_floats_can_not_count_has_thresholds_too() {
        let capacity = 1 << 64;
        let at = |reserved| {
            let demand = Demand::of([], 0, Fill::Enough);
            fill(Fill::Enough, counts(capacity, reserved), demand, Exhaustion::default())
        };
        assert_eq!(at(capacity / 100 * 95), Fill::Enough);
        assert_eq!(at(capacity / 100 * 95 + 100), Fill::Exhausted);
    }

    /// With unchanging pods every answer leads to one that stays: nothing is written any more.
    #[test]
    fn with_unchanging_pods_it_settles_at_any_fill() {
        for nodes in [1, 2, 5, 20] {
            for percent in (0..=110).step_by(5) {
                let capacity = 20 * nodes + 14;
                let pods = capacity * percent / 100 / nodes;
                let mut was = Fill::Enough;
                let mut changes = 0;
                for _ in 0..20 {
                    let supply = match was {
                        Fill::Enough => scaling::Supply::Enough,
                        Fill::Exhausted => scaling::Supply::Exhausted,
                        Fill::Awaited => scaling::Supply::Awaited,
                    };
                    let asked = i64::try_from(scaling::target(
                        pods,
                        Scaler::from_wire(16, 50, 250),
                        supply,
                    ))
                    .unwrap();
                    let each = i64::try_from(capacity / nodes).unwrap() - 1;
                    let all =
                        vec![node(asked, asked.min(each), pods); usize::try_from(nodes).unwrap()];
                    let then = next(was, capacity.into(), &all);
                    changes += usize::from(then != was);
                    was = then;
                }
                assert!(changes <= 2, "{nodes} nodes at {percent} %: {changes} changes");
            }
        }
    }
}
