//! What matters of a NodeNetworkConfig between two looks at it. Not its addresses: with a million of them they would be most of this
//! process's memory, and whoever decides about them reads the object again anyway.

use berth_api::{NodeNetworkConfig, names};
use kube::ResourceExt;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Orders the states of the object; 0 when the server's versions are no numbers, and then every state is news.
    pub version: u64,
    pub owner: Owner,
    pub finalizer: bool,
    pub deleting: bool,
    /// Of its containers, in their order.
    pub subnets: Vec<String>,
    /// Of its containers, in their order.
    pub containers: Vec<String>,
}

/// The controller owner reference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Owner {
    #[default]
    Nobody,
    Node {
        uid: String,
    },
    /// Something that is no Node.
    Other,
}

impl Facts {
    pub fn of(config: &NodeNetworkConfig) -> Self {
        let containers = config.status.iter().flat_map(|status| &status.network_containers);
        Self {
            version: version(config),
            owner: Owner::of(config),
            finalizer: config
                .finalizers()
                .iter()
                .any(|finalizer| finalizer == names::FINALIZER),
            deleting: config.metadata.deletion_timestamp.is_some(),
            subnets: containers
                .clone()
                .map(|container| container.subnet_name.clone())
                .collect(),
            containers: containers.map(|container| container.id.clone()).collect(),
        }
    }
}

impl Owner {
    pub fn of(config: &NodeNetworkConfig) -> Self {
        let controller = config
            .owner_references()
            .iter()
            .find(|owner| owner.controller == Some(true));
        match controller {
            None => Self::Nobody,
            Some(owner) if owner.kind == "Node" => Self::Node { uid: owner.uid.clone() },
            Some(_) => Self::Other,
        }
    }
}

pub fn version(config: &NodeNetworkConfig) -> u64 {
    let version = config.metadata.resource_version.as_deref();
    version.and_then(|version| version.parse().ok()).unwrap_or(0)
}
