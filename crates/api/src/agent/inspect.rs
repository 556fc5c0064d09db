//! The state of a node, for people.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::cni::{Attachment, PodRef};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub node: String,
    /// Whether the node's network works. A node whose addresses are all in use is still ready.
    pub ready: bool,
    /// Why an ADD cannot be served now, and what happens next.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    pub pool: PoolCounts,
    /// The number of pods that need an address, or of attachments if that is higher.
    pub demand: u64,
    /// What the agent last asked for.
    pub requested: u64,
    /// Whether the node's subnet is exhausted.
    pub exhausted: bool,
}

/// Counts of leases. A lease is one address, or on a dual-stack node one of each family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolCounts {
    pub free: u64,
    /// Free, and not used again for a while unless nothing else is left.
    pub cooling_down: u64,
    pub assigned: u64,
    /// On their way back to the subnet.
    pub releasing: u64,
    /// Not given out until it is known who has them.
    pub quarantined: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AddressState {
    Free,
    CoolingDown,
    Assigned,
    Releasing,
    Quarantined,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressLine {
    pub address: IpAddr,
    pub state: AddressState,
    /// The name in the NodeNetworkConfig; empty if the node has the whole CIDR of the network
    /// container.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The network container of the address; empty if the node no longer has the address and only a
    /// pod still does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<Attachment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
}

/// The addresses that an agent holds, to compare with the cluster. It has no names of pods: a UID
/// reveals nothing to callers without access to the API.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Digest {
    pub node: String,
    pub addresses: Vec<DigestLine>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DigestLine {
    pub address: IpAddr,
    pub state: AddressState,
    /// The UID of the pod that has the address, if the runtime reported it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub pod_uid: String,
}

impl From<AddressLine> for DigestLine {
    fn from(line: AddressLine) -> Self {
        Self {
            address: line.address,
            state: line.state,
            pod_uid: line.pod.map(|pod| pod.uid).unwrap_or_default(),
        }
    }
}
