//! What the nodes' controllers need to know of a Subnet.

use std::net::IpAddr;

use berth_addr::{Family, Prefix, UnitLengths};
use berth_api::subnet::Use;
use berth_api::{Subnet, nnc};
use kube::core::{Selector, SelectorExt};

use crate::node;

#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    pub usage: Use,
    pub cidrs: Vec<Prefix>,
    unit_lengths: UnitLengths,
    pub gateways: Vec<IpAddr>,
    /// `None` when it can't be evaluated: it matches no node.
    selector: Option<Selector>,
    pub scaler: nnc::Scaler,
    /// The ledger knows it. Not the same as Ready: one that was changed to something that can't be,
    /// goes on as it was.
    pub serving: bool,
    pub deleting: bool,
}

impl Facts {
    pub fn of(subnet: &Subnet) -> Self {
        let spec = &subnet.spec;
        let status = subnet.status.as_ref();
        Self {
            usage: spec.usage,
            // Each by itself: what can't be read is the subnet controller's to complain about.
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
    pub fn takes(&self, usage: Use, node: &node::Facts) -> bool {
        self.serving && self.would_take(usage, node)
    }

    /// The same, were it known to the ledger.
    pub fn would_take(&self, usage: Use, node: &node::Facts) -> bool {
        self.usage == usage && !self.deleting && self.selects(node)
    }

    fn selects(&self, node: &node::Facts) -> bool {
        self.selector
            .as_ref()
            .is_some_and(|selector| selector.matches(&node.labels))
    }

    /// Of what is handed out.
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
