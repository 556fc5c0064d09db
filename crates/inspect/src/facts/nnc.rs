//! The part of a NodeNetworkConfig that is read here. Its addresses are kept as numbers: a large
//! cluster has a million of them.

use std::net::IpAddr;

use berth_addr::Prefix;
use berth_api::NodeNetworkConfig;

#[derive(Clone, Debug)]
pub struct NncFacts {
    /// The object without its assignments, which are in `units`.
    pub object: NodeNetworkConfig,
    /// Everything that the node has for pods: single addresses, blocks, or a CIDR of its own.
    pub units: Box<[Prefix]>,
    /// The number of addresses in `units`.
    pub addresses: u128,
}

impl NncFacts {
    pub fn of(mut nnc: NodeNetworkConfig) -> Self {
        let units = units(&nnc);
        let containers = nnc.status.iter_mut().flat_map(|status| &mut status.network_containers);
        for container in containers {
            container.ip_assignments = Vec::new();
        }
        Self {
            addresses: units.iter().map(|unit| unit.size()).fold(0, u128::saturating_add),
            units: units.into(),
            object: nnc,
        }
    }

    pub fn lists(&self, address: IpAddr) -> bool {
        self.units.iter().any(|unit| unit.contains(address))
    }
}

fn units(nnc: &NodeNetworkConfig) -> Vec<Prefix> {
    let containers = nnc.status.iter().flat_map(|status| &status.network_containers);
    let units = containers.flat_map(|container| {
        let single = container.ip_assignments.iter().filter_map(|one| unit(&one.ip));
        let own = container.primary_ip.contains('/').then(|| unit(&container.primary_ip));
        single.chain(own.flatten())
    });
    units.collect()
}

fn unit(text: &str) -> Option<Prefix> {
    match text.parse::<IpAddr>() {
        Ok(address) => Some(address.into()),
        Err(_) => text.parse().ok(),
    }
}
