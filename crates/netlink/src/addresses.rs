//! Addresses of links, and their neighbour entries.

use std::net::IpAddr;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::RouteNetlinkMessage::{GetAddress, NewAddress, NewNeighbour};
use netlink_packet_route::address::{
    AddressAttribute, AddressHeader, AddressHeaderFlags, AddressMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};

use crate::batch::Batch;
use crate::error::NetlinkError;
use crate::links::Mac;
use crate::read::{address, attributes};
use crate::socket::Socket;

const FIXED: usize = 8;
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;

/// An address that a link has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InterfaceAddress {
    /// The address.
    pub address: IpAddr,
    /// Its prefix length.
    pub length: u8,
    /// The index of the link.
    pub link: u32,
}

pub fn address_family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn bits(address: IpAddr) -> u8 {
    berth_addr::Family::of(address).bits()
}

impl Batch {
    /// Gives a link an address, with no network around it.
    pub fn new_address(&mut self, link: u32, address: IpAddr) {
        let mut message = AddressMessage::default();
        message.header.family = address_family(address);
        message.header.prefix_len = bits(address);
        message.header.index = link;
        // Without this flag an IPv6 address can't be used until duplicate address detection is
        // done. Each address is assigned only once, so there are no duplicates.
        if address.is_ipv6() {
            message.header.flags = AddressHeaderFlags::Nodad;
        }
        message.attributes = vec![
            AddressAttribute::Address(address),
            AddressAttribute::Local(address),
        ];
        let name = move || format!("add address {address} to link {link}");
        self.push(name, NLM_F_CREATE | NLM_F_EXCL, NewAddress(message));
    }

    /// Sets a permanent neighbour entry of a link. It replaces an existing one.
    pub fn put_neighbour(&mut self, link: u32, address: IpAddr, mac: &Mac) {
        let mut message = NeighbourMessage::default();
        message.header.family = address_family(address);
        message.header.ifindex = link;
        message.header.state = NeighbourState::Permanent;
        let destination = match address {
            IpAddr::V4(address) => NeighbourAddress::Inet(address),
            IpAddr::V6(address) => NeighbourAddress::Inet6(address),
        };
        message.attributes = vec![
            NeighbourAttribute::Destination(destination),
            NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
        ];
        let name = move || format!("set neighbour {address} of link {link}");
        self.push(name, NLM_F_CREATE | NLM_F_REPLACE, NewNeighbour(message));
    }
}

impl Socket {
    /// The addresses of a link, in both families. The kernel leaves out those of other links.
    pub fn addresses(&self, link: u32) -> Result<Vec<InterfaceAddress>, NetlinkError> {
        let mut message = AddressMessage::default();
        message.header.index = link;
        let name = format!("list addresses of link {link}");
        self.dump(&name, &GetAddress(message), |raw| {
            InterfaceAddress::read(raw.content)
        })
    }
}

impl InterfaceAddress {
    fn read(content: &[u8]) -> Option<Self> {
        let header = AddressHeader::parse(content).ok()?;
        let value = |kind: u16| {
            let found = attributes(content, FIXED).find(|attribute| attribute.kind() == kind)?;
            address(found.value())
        };
        // On a point-to-point link, `ADDRESS` is the peer's, so `LOCAL` comes first.
        let address = value(LOCAL).or_else(|| value(ADDRESS))?;
        Some(Self {
            address,
            length: header.prefix_len,
            link: header.index,
        })
    }
}
