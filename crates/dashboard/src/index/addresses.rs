//! Who lists or shows an address, in the order of addresses: a window of a subnet is one walk.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use berth_addr::Prefix;
use berth_api::NodeNetworkConfig;
use berth_inspect::facts::listed;
use berth_kit::watch::Key;
use k8s_openapi::api::core::v1::Node;

/// Which node has it, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lister {
    /// The node's own address in its network container.
    Primary,
    /// For its pods, in its NodeNetworkConfig.
    Pool,
    /// For its pods, as the podCIDR of the Node.
    PodCidr,
}

/// Several may have one address, when something is wrong: all of them are kept.
#[derive(Debug, Default)]
pub struct Addresses {
    listed: BTreeSet<(Prefix, Lister, Arc<str>)>,
    pods: BTreeSet<(IpAddr, Key)>,
    machines: BTreeSet<(IpAddr, Key)>,
}

impl Addresses {
    pub fn list_nnc(&mut self, node: &str, nnc: &NodeNetworkConfig) {
        let node: Arc<str> = node.into();
        for (prefix, lister) in of_nnc(nnc) {
            self.listed.insert((prefix, lister, Arc::clone(&node)));
        }
    }

    pub fn unlist_nnc(&mut self, node: &str, nnc: &NodeNetworkConfig) {
        let node: Arc<str> = node.into();
        for (prefix, lister) in of_nnc(nnc) {
            self.listed.remove(&(prefix, lister, Arc::clone(&node)));
        }
    }

    pub fn list_node(&mut self, name: &str, node: &Node) {
        for cidr in pod_cidrs(node) {
            self.listed.insert((cidr, Lister::PodCidr, name.into()));
        }
    }

    pub fn unlist_node(&mut self, name: &str, node: &Node) {
        for cidr in pod_cidrs(node) {
            self.listed.remove(&(cidr, Lister::PodCidr, name.into()));
        }
    }

    pub fn show_pod(&mut self, key: &Key, addresses: &[IpAddr]) {
        self.pods
            .extend(addresses.iter().map(|address| (*address, key.clone())));
    }

    pub fn hide_pod(&mut self, key: &Key, addresses: &[IpAddr]) {
        for address in addresses {
            self.pods.remove(&(*address, key.clone()));
        }
    }

    pub fn show_machine(&mut self, key: &Key, addresses: &[IpAddr]) {
        let shown = addresses.iter().map(|address| (*address, key.clone()));
        self.machines.extend(shown);
    }

    pub fn hide_machine(&mut self, key: &Key, addresses: &[IpAddr]) {
        for address in addresses {
            self.machines.remove(&(*address, key.clone()));
        }
    }

    /// What nodes have that begins in `window`.
    pub fn listed_in(&self, window: Prefix) -> impl Iterator<Item = (Prefix, Lister, &str)> {
        // Prefixes are in the order of their first addresses, the larger ones first: whatever is
        // inside comes after the window itself.
        let from = (window, Lister::Primary, Arc::from(""));
        let listed = self.listed.range(from..);
        let listed = listed.map(|(prefix, lister, node)| (*prefix, *lister, node.as_ref()));
        listed.take_while(move |(prefix, ..)| window.covers(*prefix))
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

fn of_nnc(nnc: &NodeNetworkConfig) -> impl Iterator<Item = (Prefix, Lister)> {
    let containers = nnc.status.iter().flat_map(|status| &status.network_containers);
    let primaries = containers.flat_map(|container| {
        let texts = [Some(&container.primary_ip), container.primary_ip_v6.as_ref()];
        let single = texts
            .into_iter()
            .flatten()
            .filter_map(|text| text.parse::<IpAddr>().ok());
        single.map(|address| (Prefix::from(address), Lister::Primary))
    });
    primaries.chain(listed(nnc).map(|prefix| (prefix, Lister::Pool)))
}

fn pod_cidrs(node: &Node) -> Vec<Prefix> {
    let spec = node.spec.as_ref();
    let several = spec.and_then(|spec| spec.pod_cidrs.clone());
    let one = spec.and_then(|spec| spec.pod_cidr.clone());
    let texts = several.unwrap_or_else(|| one.into_iter().collect());
    texts.iter().filter_map(|text| text.parse().ok()).collect()
}
