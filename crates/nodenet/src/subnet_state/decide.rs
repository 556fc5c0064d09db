//! When a subnet counts as exhausted. Pure: no clock, no client.

use berth_api::Subnet;
use berth_api::subnet::{Exhaustion, Use};

/// Two thresholds, so that a subnet at the edge does not flap. Numbers saturate and do not round: percent of a /64 needs no float.
pub fn is_exhausted(was: bool, reserved: u128, capacity: u128, thresholds: Exhaustion) -> bool {
    let share = |percent: i64| capacity.saturating_mul(u128::try_from(percent).unwrap_or(0));
    let reserved = reserved.saturating_mul(100);
    if was {
        reserved >= share(thresholds.leave_percent)
    } else {
        reserved > share(thresholds.enter_percent)
    }
}

/// What to publish now, or `None` when what is published still holds or nothing is known.
pub fn publish(subnet: &Subnet, published: Option<bool>) -> Option<bool> {
    let status = subnet.status.as_ref()?;
    let (reserved, capacity) = (status.reserved?, status.capacity?);
    let exhausted = is_exhausted(
        published.unwrap_or(false),
        reserved.0,
        capacity.0,
        subnet.spec.exhaustion,
    );
    (published != Some(exhausted)).then_some(exhausted)
}

/// Agents ask only about where pods get their addresses.
pub fn is_published(subnet: &Subnet) -> bool {
    subnet.spec.usage == Use::Pods
}

#[cfg(test)]
mod tests {
    use berth_api::{SubnetSpec, SubnetStatus};

    use super::*;

    fn subnet(reserved: u128) -> Subnet {
        let mut subnet = Subnet::new("pods", SubnetSpec::default());
        subnet.status = Some(SubnetStatus {
            capacity: Some(100.into()),
            reserved: Some(reserved.into()),
            ..SubnetStatus::default()
        });
        subnet
    }

    #[test]
    fn stays_exhausted_until_it_falls_below_the_lower_threshold() {
        assert_eq!(publish(&subnet(95), Some(false)), None);
        assert_eq!(publish(&subnet(96), Some(false)), Some(true));
        assert_eq!(publish(&subnet(92), Some(true)), None);
        assert_eq!(publish(&subnet(90), Some(true)), None);
        assert_eq!(publish(&subnet(89), Some(true)), Some(false));
    }

    #[test]
    fn a_new_subnet_is_published_even_when_it_is_fine() {
        assert_eq!(publish(&subnet(0), None), Some(false));
    }

    #[test]
    fn nothing_is_published_of_a_subnet_that_hands_out_nothing() {
        let mut unknown = subnet(0);
        unknown.status = None;
        assert_eq!(publish(&unknown, None), None);
        assert_eq!(publish(&unknown, Some(true)), None);
    }

    #[test]
    fn a_prefix_that_floats_can_not_count_has_thresholds_too() {
        let thresholds = Exhaustion::default();
        let capacity = 1 << 64;
        assert!(!is_exhausted(false, capacity / 100 * 95, capacity, thresholds));
        assert!(is_exhausted(false, capacity / 100 * 95 + 100, capacity, thresholds));
    }
}
