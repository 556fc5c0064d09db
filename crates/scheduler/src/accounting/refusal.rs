//! Why a node has no pod IP for a pod.

use std::sync::Arc;

/// The texts are constant except for names: kube-scheduler joins all *different* texts into one
/// message, which it writes into the pod at every try. Figures are in metrics.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    #[error("no pod IP left in subnet {subnet}")]
    SubnetFull { subnet: Arc<str> },
    #[error("no pod IP left in the node's podCIDR")]
    PodCidrFull,
    #[error("no pod IP left: the node has as many as maxIPCount of its subnet allows")]
    MaxIpCount,
    #[error("the node has no network container yet")]
    NoContainer,
    #[error("the node has neither a podCIDR nor a NodeNetworkConfig yet")]
    NoPodCidr,
    #[error("the node's podCIDR can't be read")]
    UnreadablePodCidr,
    #[error("the node is not known yet")]
    UnknownNode,
    #[error("the pod is bound to node {node} already")]
    BoundElsewhere { node: Arc<str> },
    #[error("the pod may be bound to node {node} already: that binding has not been answered")]
    ReservedElsewhere { node: Arc<str> },
}

impl Refusal {
    /// For labels of metrics: few, and always the same.
    pub fn category(&self) -> &'static str {
        match self {
            Self::SubnetFull { .. } => "subnet_full",
            Self::PodCidrFull => "pod_cidr_full",
            Self::MaxIpCount => "max_ip_count",
            Self::NoContainer => "no_container",
            Self::NoPodCidr => "no_pod_cidr",
            Self::UnreadablePodCidr => "unreadable_pod_cidr",
            Self::UnknownNode => "unknown_node",
            Self::BoundElsewhere { .. } | Self::ReservedElsewhere { .. } => "elsewhere",
        }
    }
}
