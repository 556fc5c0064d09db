//! The pod network of a node: its CNI configuration and plugins.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

use serde_json::json;

/// The names and addresses of one node.
#[derive(Clone, Debug)]
pub struct Seat {
    /// The node's name.
    pub node: String,
    /// Nodes count from 1.
    pub number: u8,
    pub address: Ipv4Addr,
    pub address_v6: Ipv6Addr,
    /// The podCIDR of this node.
    pub pods: String,
}

/// A CNI configuration, and the directory of the plugins that it names.
#[derive(Clone, Debug)]
pub struct Network {
    /// The content of a `.conflist`; without one the node stays NotReady until a test adds one.
    pub configuration: Option<String>,
    /// The node gets every file in this directory as a plugin.
    pub plugins: PathBuf,
}

/// Where Debian puts the plugins.
pub const PLUGINS: &str = "/usr/lib/cni";

impl Network {
    /// A veth pair and a route for each pod, addresses from files on the node: `ptp` and
    /// `host-local`.
    pub fn ptp(seat: &Seat) -> Self {
        let configuration = json!({
            "cniVersion": "1.0.0",
            "name": "pods",
            "plugins": [{
                "type": "ptp",
                "ipMasq": false,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": seat.pods}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            }],
        });
        Self {
            configuration: Some(configuration.to_string()),
            plugins: PathBuf::from(PLUGINS),
        }
    }
}
