//! What routes need to know of a Node.

use std::net::IpAddr;

use berth_addr::{Family, Prefix};

use super::condition::Condition;
use super::route::{Hop, HopError};

/// A CIDR as written and as parsed. The text is only for messages: two spellings of one CIDR are
/// equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cidr {
    pub written: String,
    /// `None` when it does not parse.
    pub prefix: Option<Prefix>,
}

impl From<&str> for Cidr {
    fn from(written: &str) -> Self {
        Self {
            written: written.to_owned(),
            prefix: parse_cidr(written),
        }
    }
}

/// Accepts what Kubernetes accepts: capital letters, and host bits, which it clears.
pub fn parse_cidr(written: &str) -> Option<Prefix> {
    let (address, length) = written.trim().split_once('/')?;
    Prefix::around(address.parse().ok()?, length.parse().ok()?)
}

/// One of a Node's `status.addresses`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// `InternalIP`, `ExternalIP`, `Hostname`.
    pub kind: String,
    pub address: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    pub uid: String,
    /// Creation time in seconds: of two nodes that claim one CIDR, the older owns it.
    pub created: i64,
    pub cidrs: Vec<Cidr>,
    pub addresses: Vec<Address>,
    pub provider_id: String,
    /// `NetworkUnavailable`, as it was last seen.
    pub condition: Option<Condition>,
}

impl Node {
    /// The CIDRs that parse, each once.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> {
        let parsed = || self.cidrs.iter().map(|cidr| cidr.prefix);
        parsed().enumerate().filter_map(move |(at, prefix)| {
            prefix.filter(|_| !parsed().take(at).any(|earlier| earlier == prefix))
        })
    }

    /// In the order in which the kubelet reports them.
    pub fn internal_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let internal = self.addresses.iter().filter(|one| one.kind == "InternalIP");
        internal.filter_map(|one| one.address.parse().ok())
    }

    /// The last part of `aws:///eu-central-1a/i-0123456789abcdef0`.
    pub fn instance(&self) -> Option<&str> {
        let (_, last) = self.provider_id.rsplit_once('/')?;
        (!last.is_empty()).then_some(last)
    }

    /// All names that a route can use for this node as its next hop.
    pub fn hops(&self) -> impl Iterator<Item = Hop> {
        let addresses = self
            .addresses
            .iter()
            .filter_map(|one| one.address.parse().ok());
        let instance = self.instance().map(|name| Hop::Instance(name.to_owned()));
        addresses.map(Hop::Address).chain(instance)
    }

    /// The node as a next hop, by its own address in the destination's family.
    pub fn address_hop(&self, destination: Prefix) -> Result<Hop, HopError> {
        let family = destination.family();
        let mut addresses = self.internal_addresses();
        let address = addresses.find(|address| Family::of(*address) == family);
        address
            .map(Hop::Address)
            .ok_or_else(|| HopError::NoAddress {
                node: self.name.clone(),
                family,
                destination,
            })
    }

    /// The filter of updates: whether the routes of this node may differ from those of `before`.
    /// Heartbeats, conditions, labels and images do not matter, nor do the order of addresses and
    /// the spelling of a CIDR.
    pub fn routes_differ(&self, before: &Self) -> bool {
        let cidrs = |node: &Self| -> Vec<Result<Prefix, String>> {
            let cidrs = node.cidrs.iter();
            cidrs
                .map(|cidr| cidr.prefix.ok_or_else(|| cidr.written.clone()))
                .collect()
        };
        let addresses = |node: &Self| {
            let mut addresses = node.addresses.clone();
            addresses.sort();
            addresses
        };
        self.uid != before.uid
            || self.provider_id != before.provider_id
            || cidrs(self) != cidrs(before)
            || addresses(self) != addresses(before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(cidrs: &[&str], addresses: &[&str]) -> Node {
        let address = |address: &&str| Address {
            kind: "InternalIP".to_owned(),
            address: (*address).to_owned(),
        };
        Node {
            name: "a".to_owned(),
            cidrs: cidrs.iter().map(|cidr| Cidr::from(*cidr)).collect(),
            addresses: addresses.iter().map(address).collect(),
            ..Node::default()
        }
    }

    #[test]
    fn the_way_a_cidr_is_written_is_no_change() {
        let before = node(&["A00:100::/24"], &[]);
        assert!(!node(&["a00:100::/24"], &[]).routes_differ(&before));
        assert!(!node(&["a00:100:0::1/24"], &[]).routes_differ(&before));
        assert!(node(&["a00:200::/24"], &[]).routes_differ(&before));
    }

    #[test]
    fn the_order_of_addresses_is_no_change() {
        let before = node(&[], &["10.0.0.1", "10.0.0.2"]);
        assert!(!node(&[], &["10.0.0.2", "10.0.0.1"]).routes_differ(&before));
        assert!(node(&[], &["10.0.0.1"]).routes_differ(&before));
    }

    #[test]
    fn a_condition_is_no_change() {
        let before = node(&["10.0.0.0/24"], &["10.0.0.1"]);
        let mut after = before.clone();
        after.condition = Some(Condition::routed());
        assert!(!after.routes_differ(&before));
    }

    #[test]
    fn another_node_of_the_same_name_is_a_change() {
        let before = node(&["10.0.0.0/24"], &["10.0.0.1"]);
        let mut after = before.clone();
        after.uid = "other".to_owned();
        assert!(after.routes_differ(&before));
    }

    #[test]
    fn a_cidr_that_is_there_twice_counts_once() {
        let repeated = node(&["10.0.0.0/24", "10.0.0.9/24", "bad"], &[]);
        assert_eq!(repeated.prefixes().count(), 1);
    }

    #[test]
    fn an_instance_is_the_last_part_of_the_provider_id() {
        let of = |provider_id: &str| Node {
            provider_id: provider_id.to_owned(),
            ..Node::default()
        };
        assert_eq!(of("aws:///eu-central-1a/i-01").instance(), Some("i-01"));
        assert_eq!(of("").instance(), None);
        assert_eq!(of("aws:///").instance(), None);
    }
}
