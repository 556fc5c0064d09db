//! What is kept of a NodeNetworkConfig between two reconciles. Its addresses are not: a million of
//! them would be most of this process's memory, and decisions about them read the object again
//! anyway.

use berth_api::nnc::{OVERLAY, Scaler};
use berth_api::{NodeNetworkConfig, names};
use kube::ResourceExt;

use super::NodeFacts;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NncFacts {
    /// Orders the states of the object; 0 if the server's versions are not numbers, and then every
    /// state counts as new.
    pub version: u64,
    pub owner: NncOwner,
    pub finalizer: bool,
    pub deleting: bool,
    /// The subnets of its containers, in their order.
    pub subnets: Vec<String>,
    /// The ids of its containers, in their order.
    pub containers: Vec<String>,
    /// The subnet that its pods get their addresses from.
    pub pods_subnet: Option<String>,
    pub requested: Requested,
}

/// What the agent asks for, and what it got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requested {
    pub count: i64,
    pub assigned: i64,
    pub scaler: Option<Scaler>,
}

/// The controller owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NncOwner {
    #[default]
    Nobody,
    Node {
        uid: String,
    },
    /// An object that is not a Node.
    Other,
}

impl NncFacts {
    pub fn of(nnc: &NodeNetworkConfig) -> Self {
        let containers = nnc.status.iter().flat_map(|status| &status.network_containers);
        Self {
            version: version(nnc),
            owner: NncOwner::of(nnc),
            finalizer: nnc.finalizers().iter().any(|finalizer| finalizer == names::FINALIZER),
            deleting: nnc.metadata.deletion_timestamp.is_some(),
            subnets: containers
                .clone()
                .map(|container| container.subnet_name.clone())
                .collect(),
            pods_subnet: containers
                .clone()
                .find(|container| container.container_type != OVERLAY)
                .map(|container| container.subnet_name.clone()),
            containers: containers.map(|container| container.id.clone()).collect(),
            requested: Requested {
                count: nnc.spec.requested_ip_count,
                assigned: nnc.status.as_ref().map_or(0, |status| status.assigned_ip_count),
                scaler: nnc.status.as_ref().and_then(|status| status.scaler),
            },
        }
    }
}

impl NncOwner {
    pub fn of(nnc: &NodeNetworkConfig) -> Self {
        let controller = nnc
            .owner_references()
            .iter()
            .find(|owner| owner.controller == Some(true));
        match controller {
            None => Self::Nobody,
            Some(owner) if owner.kind == "Node" => Self::Node {
                uid: owner.uid.clone(),
            },
            Some(_) => Self::Other,
        }
    }
}

/// Whether the nnc belongs to this node or to nobody: then it is served.
pub fn is_of(nnc: &NodeNetworkConfig, node: &NodeFacts) -> bool {
    match NncOwner::of(nnc) {
        NncOwner::Nobody => true,
        NncOwner::Node { uid } => uid == node.uid,
        NncOwner::Other => false,
    }
}

/// Orders the states of the object, see [`NncFacts::version`].
pub fn version(nnc: &NodeNetworkConfig) -> u64 {
    let version = nnc.metadata.resource_version.as_deref();
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}
