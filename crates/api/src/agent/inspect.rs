//! What people see of a node.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::cni::{Attachment, PodRef};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    pub node: String,
    /// Whether the node's network is in order. It is, too, while every address is in use.
    pub ready: bool,
    /// Why an ADD can't be served now, and what is done about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    pub pool: PoolCounts,
    /// Pods that need an address, or attachments if those are more.
    pub demand: u64,
    /// What the agent last asked for.
    pub requested: u64,
    /// Whether the node's subnet is exhausted.
    pub exhausted: bool,
}

/// In leases: an address, or one of each family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolCounts {
    pub free: u64,
    /// Free, and not to be used again for a while unless nothing else is left.
    pub cooling_down: u64,
    pub assigned: u64,
    /// On their way back to the subnet.
    pub releasing: u64,
    /// Not given out until it is known whether somebody has them.
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
    /// By which the NodeNetworkConfig knows it; empty in a container of which every address is the
    /// node's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The network container it is of; empty when the node does not have it any more, and only its
    /// pod still does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub container: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attachment: Option<Attachment>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodRef>,
}

/// What an agent holds, for whoever compares it with the cluster. It names no pod: a UID says
/// nothing to somebody who can't read the API.
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
    /// Of the pod that it is assigned to, where the runtime has told it.
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
