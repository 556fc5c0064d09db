//! A route as a backend has it.

use std::fmt;
use std::net::IpAddr;

use berth_addr::Prefix;

/// Where a route sends packets, in the terms of the backend.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hop {
    /// The address of a node.
    Address(IpAddr),
    /// A cloud's name of a machine, such as `i-0123456789abcdef0`.
    Instance(String),
    /// No node: nowhere, a gateway of the cloud, or several next hops.
    Other(String),
}

impl fmt::Display for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Instance(name) | Self::Other(name) => f.write_str(name),
        }
    }
}

/// Whether a backend can tell who made a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mark {
    /// It carries our mark.
    Ours,
    /// It carries somebody else's mark, or lacks ours.
    Foreign,
    /// The backend cannot mark routes: the next hop decides whose route it is.
    Unmarked,
}

/// A route that a backend has listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    pub destination: Prefix,
    pub hop: Hop,
    pub mark: Mark,
    /// Packets get through. A blackhole, or a route that only some of several tables have, is not
    /// usable and must be made again.
    pub usable: bool,
}

/// Why a node can't be the next hop of a route.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HopError {
    #[error(
        "node {node} has no {family} address of type InternalIP for {destination}: the kubelet \
             has to report one (--node-ip)"
    )]
    NoAddress {
        node: String,
        family: berth_addr::Family,
        destination: Prefix,
    },
    #[error(
        "node {node} has no spec.providerID that names an instance (aws:///ZONE/i-…): the cloud \
             controller manager or the kubelet (--provider-id) has to set it"
    )]
    NoInstance { node: String },
}
