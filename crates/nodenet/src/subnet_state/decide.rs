//! What agents are told of a subnet. Pure.

use berth_api::subnet::Use;
use berth_api::{ClusterSubnetStateStatus, Subnet, subnet_state};

use crate::subnet::{Fill, published_fill};

/// What to publish now, or `None` when what is published still holds or nothing is known.
pub fn publish(
    subnet: &Subnet,
    published: Option<&ClusterSubnetStateStatus>,
    now: impl ToString,
) -> Option<ClusterSubnetStateStatus> {
    let fill = published_fill(subnet)?;
    let scaler = |buffer| Some(subnet_state::Scaler { batch: 1, buffer });
    let scaler = match fill {
        Fill::Enough => None,
        Fill::Exhausted => scaler(1),
        Fill::Awaited => scaler(0),
    };
    let exhausted = fill != Fill::Enough;
    let same = published
        .is_some_and(|published| published.exhausted == exhausted && published.scaler == scaler);
    (!same).then(|| ClusterSubnetStateStatus {
        exhausted,
        timestamp: now.to_string(),
        scaler,
    })
}

/// Agents ask only about where pods get their addresses.
pub fn is_published(subnet: &Subnet) -> bool {
    subnet.spec.usage == Use::Pods
}

#[cfg(test)]
mod tests {
    use berth_api::SubnetSpec;
    use serde_json::json;

    use super::*;

    fn subnet(status: &str, reason: &str) -> Subnet {
        let mut subnet = Subnet::new("pods", SubnetSpec::default());
        let condition = json!({
            "type": "Exhausted", "status": status, "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
        });
        subnet.status = Some(serde_json::from_value(json!({"conditions": [condition]})).unwrap());
        subnet
    }

    fn buffer(published: &ClusterSubnetStateStatus) -> Option<i64> {
        published.scaler.map(|scaler| scaler.buffer)
    }

    #[test]
    fn the_state_is_published_only_when_the_condition_changes() {
        let enough = publish(&subnet("False", "Enough"), None, "t").unwrap();
        assert_eq!((enough.exhausted, buffer(&enough)), (false, None));
        assert_eq!(publish(&subnet("False", "Enough"), Some(&enough), "u"), None);
        let exhausted = publish(&subnet("True", "Exhausted"), Some(&enough), "u").unwrap();
        assert_eq!((exhausted.exhausted, buffer(&exhausted)), (true, Some(1)));
        let awaited = publish(&subnet("True", "AddressesAwaited"), Some(&exhausted), "v").unwrap();
        assert_eq!((awaited.exhausted, buffer(&awaited)), (true, Some(0)));
        assert_eq!(publish(&subnet("True", "AddressesAwaited"), Some(&awaited), "w"), None);
    }

    #[test]
    fn nothing_is_published_of_a_subnet_that_hands_out_nothing() {
        assert_eq!(publish(&subnet("Unknown", "NotReady"), None, "t"), None);
        assert_eq!(publish(&Subnet::new("pods", SubnetSpec::default()), None, "t"), None);
    }
}
