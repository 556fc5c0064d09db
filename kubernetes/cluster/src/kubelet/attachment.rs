//! Which node a pod is on, and what it has of the network.

use std::net::IpAddr;

use k8s_openapi::api::core::v1::Pod;

use crate::nodes::Fleet;

/// What a pod has of the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// It needs none: it lives on its host's network, or there is no network here and somebody else
    /// writes addresses.
    Unneeded,
    /// Perhaps it has something: an earlier process may have attached it, or this one has tried and
    /// knows no outcome.
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
