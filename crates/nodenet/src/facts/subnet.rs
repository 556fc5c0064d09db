//! What the nodes' controllers need to know of a Subnet.

use std::net::IpAddr;

use berth_addr::{Family, Prefix, UnitLengths};
use berth_api::subnet::Use;
use berth_api::{Subnet, nnc};
use kube::core::{Selector, SelectorExt};

use super::NodeFacts;

#[derive(Clone, Debug, PartialEq)]
pub struct SubnetFacts {
    pub usage: Use,
    pub cidrs: Vec<Prefix>,
    unit_lengths: UnitLengths,
    pub gateways: Vec<IpAddr>,
    /// `None` when it can't be evaluated: it matches no node.
    selector: Option<Selector>,
    pub scaler: nnc::Scaler,
    /// Whether it is registered. This is not the same as Ready: a Subnet that was changed to
    /// something invalid goes on as it was.
    pub serving: bool,
    pub deleting: bool,
}

impl SubnetFacts {
    pub fn of(subnet: &Subnet) -> Self {
        let spec = &subnet.spec;
        let status = subnet.status.as_ref();
        Self {
            usage: spec.usage,
            // Each is parsed by itself: the subnet controller warns of those that can't be read.
            cidrs: spec.cidrs.iter().filter_map(|cidr| cidr.parse().ok()).collect(),
            unit_lengths: UnitLengths {
                ipv4: spec.unit_length(Family::V4),
                ipv6: spec.unit_length(Family::V6),
            },
            gateways: spec
                .gateways
                .iter()
                .filter_map(|gateway| gateway.parse().ok())
                .collect(),
            selector: spec.node_selector.clone().try_into().ok(),
            scaler: spec.scaler.into(),
            serving: status.is_some_and(|status| status.capacity.is_some()),
            deleting: subnet.metadata.deletion_timestamp.is_some(),
        }
    }

    /// Whether a node that has nothing yet may draw on it.
    pub fn serves(&self, usage: Use, node: &NodeFacts) -> bool {
        self.serving && self.selects(usage, node)
    }

    /// Whether it would serve the node if it were registered.
    pub fn selects(&self, usage: Use, node: &NodeFacts) -> bool {
        self.usage == usage && !self.deleting && self.matches(node)
    }

    fn matches(&self, node: &NodeFacts) -> bool {
        self.selector
            .as_ref()
            .is_some_and(|selector| selector.matches(&node.labels))
    }

    /// The prefix length of the units that are handed out.
    pub fn unit_length(&self, family: Family) -> u8 {
        self.unit_lengths.of(family)
    }

    pub fn cidr_around(&self, address: IpAddr) -> Option<Prefix> {
        self.cidrs.iter().copied().find(|cidr| cidr.contains(address))
    }

    pub fn gateway_in(&self, cidr: Prefix) -> Option<IpAddr> {
        self.gateways.iter().copied().find(|gateway| cidr.contains(*gateway))
    }
}
