//! The arithmetic of a rollout: how large each ReplicaSet of a Deployment should be now. Pure
//! numbers.

use k8s_openapi::api::apps::v1::DeploymentSpec;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// How far a rollout may deviate from the desired number of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    pub desired: i32,
    /// How many pods may exist above `desired`.
    pub surge: i32,
    /// How many of the desired pods may be unavailable.
    pub unavailable: i32,
}

impl Bounds {
    /// The default is 25% each. `surge` is rounded up, `unavailable` down. Both are zero only for a
    /// Deployment that recreates its pods; a rolling update could replace no pod then.
    pub fn of(spec: &DeploymentSpec) -> Self {
        let desired = spec.replicas.unwrap_or(1);
        let strategy = spec.strategy.as_ref();
        if strategy.and_then(|s| s.type_.as_deref()) == Some("Recreate") {
            return Self {
                desired,
                surge: 0,
                unavailable: 0,
            };
        }
        let rolling = strategy.and_then(|s| s.rolling_update.as_ref());
        let quarter = IntOrString::String("25%".to_owned());
        let surge = rolling.and_then(|r| r.max_surge.as_ref()).unwrap_or(&quarter);
        let unavailable = rolling.and_then(|r| r.max_unavailable.as_ref()).unwrap_or(&quarter);
        let surge = resolve(surge, desired, true);
        let unavailable = resolve(unavailable, desired, false).min(desired);
        Self {
            desired,
            surge,
            unavailable: if surge == 0 { unavailable.max(1) } else { unavailable },
        }
    }

    pub fn min_available(self) -> i32 {
        self.desired.saturating_sub(self.unavailable).max(0)
    }
}

fn resolve(amount: &IntOrString, of: i32, up: bool) -> i32 {
    match amount {
        IntOrString::Int(amount) => (*amount).max(0),
        IntOrString::String(text) => {
            let percent = text.strip_suffix('%').and_then(|p| p.parse::<i64>().ok());
            let share = percent.unwrap_or(0).max(0).saturating_mul(of.into());
            let share = if up {
                share.saturating_add(99) / 100
            } else {
                share / 100
            };
            i32::try_from(share).unwrap_or(i32::MAX)
        }
    }
}

/// One ReplicaSet in a rollout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// `spec.replicas` of the set.
    pub asked: i32,
    pub available: i32,
}

/// The next sizes of the new set and of the old ones, oldest first. New pods come before old ones
/// go, within the bounds.
pub fn rolling(bounds: Bounds, new: Size, old: &[Size]) -> (i32, Vec<i32>) {
    let unchanged = || old.iter().map(|size| size.asked).collect();
    let total: i32 = new.asked + old.iter().map(|size| size.asked).sum::<i32>();
    let room = bounds.desired.saturating_add(bounds.surge) - total;
    let grown = match bounds.desired - new.asked {
        missing if missing > 0 => new.asked + missing.min(room.max(0)),
        _ => bounds.desired,
    };
    if grown != new.asked {
        return (grown, unchanged());
    }
    // New pods that are not available yet can't stand in for old ones.
    let unavailable = new.asked - new.available;
    let mut removable = total - bounds.min_available() - unavailable;
    if removable <= 0 {
        return (grown, unchanged());
    }
    // Old pods that are not available are removed first, even while new ones come up.
    let mut sizes: Vec<i32> = unchanged();
    for (asked, size) in sizes.iter_mut().zip(old) {
        let unhealthy = (size.asked - size.available).clamp(0, removable);
        *asked -= unhealthy;
        removable -= unhealthy;
    }
    let available: i32 = new.available + old.iter().map(|size| size.available).sum::<i32>();
    let mut removable = removable.min(available - bounds.min_available()).max(0);
    for asked in &mut sizes {
        let gone = removable.min(*asked);
        *asked -= gone;
        removable -= gone;
    }
    (grown, sizes)
}

/// Removes all old pods before it creates a new one.
pub fn recreate(desired: i32, old: &[Size], old_pods_left: bool) -> (i32, Vec<i32>) {
    let done = !old_pods_left && old.iter().all(|size| size.asked == 0);
    (if done { desired } else { 0 }, vec![0; old.len()])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn bounds(replicas: i32, surge: serde_json::Value, unavailable: serde_json::Value) -> Bounds {
        let spec = json!({
            "replicas": replicas,
            "selector": {},
            "template": {},
            "strategy": {"rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
        });
        Bounds::of(&serde_json::from_value(spec).unwrap())
    }

    fn size(asked: i32, available: i32) -> Size {
        Size { asked, available }
    }

    #[test]
    fn percents_round_up_for_surge_and_down_for_unavailable() {
        let of = bounds(10, json!("25%"), json!("25%"));
        assert_eq!((of.surge, of.unavailable, of.min_available()), (3, 2, 8));
        let of = bounds(1, json!("25%"), json!("25%"));
        assert_eq!((of.surge, of.unavailable), (1, 0));
        let of = bounds(3, json!(2), json!(5));
        assert_eq!((of.surge, of.unavailable, of.min_available()), (2, 3, 0));
        assert_eq!(
            bounds(4, json!(0), json!(0)).unavailable,
            1,
            "something must be able to move"
        );
        let recreate = json!({"replicas": 4, "selector": {}, "template": {}, "strategy": {"type": "Recreate"}});
        let of = Bounds::of(&serde_json::from_value(recreate).unwrap());
        assert_eq!((of.surge, of.min_available()), (0, 4));
    }

    #[test]
    fn a_first_rollout_makes_all_pods_at_once() {
        let of = bounds(20, json!("25%"), json!("25%"));
        assert_eq!(rolling(of, size(0, 0), &[]), (20, vec![]));
    }

    #[test]
    fn scaling_follows_the_wanted_number() {
        let of = bounds(5, json!("25%"), json!("25%"));
        assert_eq!(rolling(of, size(3, 3), &[]), (5, vec![]));
        assert_eq!(rolling(of, size(9, 9), &[]), (5, vec![]));
        assert_eq!(rolling(of, size(5, 5), &[]), (5, vec![]));
    }

    #[test]
    fn old_pods_that_are_not_available_go_without_waiting() {
        let of = bounds(4, json!(1), json!(1));
        assert_eq!(rolling(of, size(1, 0), &[size(4, 2)]), (1, vec![3]));
    }

    #[test]
    fn a_recreate_waits_until_the_last_old_pod_is_gone() {
        assert_eq!(recreate(3, &[size(3, 3)], true), (0, vec![0]));
        assert_eq!(recreate(3, &[size(0, 0)], true), (0, vec![0]));
        assert_eq!(recreate(3, &[size(0, 0)], false), (3, vec![0]));
    }

    proptest::proptest! {
        /// For all numbers: a rollout whose pods become available ends, and stays within its bounds
        /// until then.
        #[test]
        fn a_rollout_ends_and_stays_within_its_bounds(
            desired in 0..60i32,
            surge in 0..20i32,
            unavailable in 0..20i32,
            olds in proptest::collection::vec(0..40i32, 0..4),
        ) {
            let of = bounds(desired, json!(surge), json!(unavailable));
            let mut new = size(0, 0);
            let mut old: Vec<_> = olds.iter().map(|asked| size(*asked, *asked)).collect();
            let mut rounds = 0;
            loop {
                let total_before = new.asked + old.iter().map(|s| s.asked).sum::<i32>();
                let (grown, sizes) = rolling(of, new, &old);
                let available = grown.min(new.available) + sizes.iter().sum::<i32>();
                let available_before = new.available + old.iter().map(|s| s.available).sum::<i32>();
                let total = grown + sizes.iter().sum::<i32>();
                proptest::prop_assert!(total <= (of.desired + of.surge).max(total_before));
                proptest::prop_assert!(available >= of.min_available().min(available_before));
                let done = (grown, &sizes) == (new.asked, &old.iter().map(|s| s.asked).collect()) && new.asked == new.available;
                // One more pod becomes available each round.
                new = size(grown, (new.available + 1).min(grown));
                old = sizes.iter().map(|asked| size(*asked, *asked)).collect();
                if done {
                    break;
                }
                rounds += 1;
                proptest::prop_assert!(rounds < 1000);
            }
            proptest::prop_assert_eq!(new.asked, desired);
            proptest::prop_assert!(old.iter().all(|s| s.asked == 0));
        }
    }
}
