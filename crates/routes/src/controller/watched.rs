//! A Node as routes need it, from what is watched of it.

use berth_api::ObservedNode;

use crate::core::{Address, Condition, Node};

/// The `NetworkUnavailable` condition of the node.
pub fn condition_of(node: &ObservedNode) -> Option<Condition> {
    let found = node.condition("NetworkUnavailable")?;
    Some(Condition {
        status: found.status.clone(),
        reason: found.reason.clone().unwrap_or_default(),
    })
}

impl From<ObservedNode> for Node {
    fn from(watched: ObservedNode) -> Self {
        let created = watched.metadata.creation_timestamp.as_ref();
        Self {
            created: created.map_or(0, |time| time.0.as_second()),
            cidrs: watched.pod_cidrs().map(Into::into).collect(),
            addresses: watched
                .addresses()
                .iter()
                .map(|one| Address {
                    kind: one.type_.clone(),
                    address: one.address.clone(),
                })
                .collect(),
            provider_id: watched.provider_id().to_owned(),
            condition: condition_of(&watched),
            uid: watched.metadata.uid.unwrap_or_default(),
            name: watched.metadata.name.unwrap_or_default(),
        }
    }
}
