//! Which nodes list an address, and which pods and machines show it, in the order of addresses:
//! reading a window of a subnet is one walk.

use std::collections::BTreeSet;
use std::net::IpAddr;

use berth_addr::Prefix;
use berth_api::ObservedNode;
use berth_inspect::facts::NncFacts;
use berth_kit::watch::Key;

use super::listed::{Listed, Lister, Name};

/// If several have one address by mistake, all of them are kept.
#[derive(Debug, Default)]
pub struct Addresses {
    listed: Listed,
    pods: BTreeSet<(IpAddr, Key)>,
    machines: BTreeSet<(IpAddr, Key)>,
}

impl Addresses {
    pub fn add_nnc(&mut self, node: &str, nnc: &NncFacts) {
        let node = Name::new(node.into());
        for (unit, lister) in of_nnc(nnc) {
            self.listed.insert(unit, lister, &node);
        }
    }

    pub fn remove_nnc(&mut self, node: &str, nnc: &NncFacts) {
        let node = Name::new(node.into());
        for (unit, lister) in of_nnc(nnc) {
            self.listed.remove(unit, lister, &node);
        }
    }

    pub fn add_node(&mut self, name: &str, node: &ObservedNode) {
        let name = Name::new(name.into());
        for cidr in pod_cidrs(node) {
            self.listed.insert(cidr, Lister::PodCidr, &name);
        }
    }

    pub fn remove_node(&mut self, name: &str, node: &ObservedNode) {
        let name = Name::new(name.into());
        for cidr in pod_cidrs(node) {
            self.listed.remove(cidr, Lister::PodCidr, &name);
        }
    }

    pub fn add_pod(&mut self, key: &Key, addresses: &[IpAddr]) {
        self.pods
            .extend(addresses.iter().map(|address| (*address, key.clone())));
    }

    pub fn remove_pod(&mut self, key: &Key, addresses: &[IpAddr]) {
        for address in addresses {
            self.pods.remove(&(*address, key.clone()));
        }
    }

    pub fn add_machine(&mut self, key: &Key, addresses: &[IpAddr]) {
        let shown = addresses.iter().map(|address| (*address, key.clone()));
        self.machines.extend(shown);
    }

    pub fn remove_machine(&mut self, key: &Key, addresses: &[IpAddr]) {
        for address in addresses {
            self.machines.remove(&(*address, key.clone()));
        }
    }

    /// The units of this length in `window` that nodes list, in order.
    pub fn listed_in(
        &self,
        window: Prefix,
        length: u8,
    ) -> impl Iterator<Item = (Prefix, Lister, &str)> {
        self.listed.in_window(window, length)
    }

    /// Living pods by their addresses in `window`.
    pub fn pods_in(&self, window: Prefix) -> impl Iterator<Item = (IpAddr, &Key)> {
        in_window(&self.pods, window)
    }

    pub fn machines_in(&self, window: Prefix) -> impl Iterator<Item = (IpAddr, &Key)> {
        in_window(&self.machines, window)
    }
}

fn in_window(
    set: &BTreeSet<(IpAddr, Key)>,
    window: Prefix,
) -> impl Iterator<Item = (IpAddr, &Key)> {
    let from = (window.first(), Key::default());
    let shown = set.range(from..).map(|(address, key)| (*address, key));
    shown.take_while(move |(address, _)| window.contains(*address))
}

fn of_nnc(nnc: &NncFacts) -> impl Iterator<Item = (Prefix, Lister)> {
    let containers = nnc.object.status.iter().flat_map(|status| &status.network_containers);
    let primaries = containers.flat_map(|container| {
        let texts = [Some(&container.primary_ip), container.primary_ip_v6.as_ref()];
        let single = texts
            .into_iter()
            .flatten()
            .filter_map(|text| text.parse::<IpAddr>().ok());
        single.map(|address| (Prefix::from(address), Lister::Primary))
    });
    primaries.chain(nnc.units.iter().map(|unit| (*unit, Lister::Pool)))
}

fn pod_cidrs(node: &ObservedNode) -> impl Iterator<Item = Prefix> {
    node.pod_cidrs().filter_map(|text| text.parse().ok())
}
