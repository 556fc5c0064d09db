//! What holds for every node.

use super::NoCidr;

/// How a node counts that has neither a podCIDR nor a NodeNetworkConfig.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub no_cidr: NoCidr,
    /// Some node has or had one of them, or there is a Subnet for pods.
    pub gives_addresses: bool,
}
