//! The node of a pod, and the state of its sandbox in the network.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;

use crate::nodes::Fleet;

/// The state of a pod's sandbox in the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// The pod needs no attachment: it uses its host's network, or there is no network here and an
    /// outside client writes addresses.
    Unneeded,
    /// The sandbox may have addresses: an earlier process may have attached it, or this one has
    /// tried without a known outcome.
    Unknown {
        tried: bool,
    },
    Attached(Vec<IpAddr>),
    Detached,
}

impl Attachment {
    pub fn may_hold(&self) -> bool {
        matches!(self, Self::Unknown { .. } | Self::Attached(_))
    }
}

/// The virtual node that the pod is on.
pub fn bound_to(pod: &Pod) -> Option<&str> {
    let node = pod.spec.as_ref()?.node_name.as_deref()?;
    Fleet::owns(node).then_some(node)
}
