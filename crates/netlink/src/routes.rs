//! Addresses, neighbours and routes.

use std::net::IpAddr;

use rustix::io::Errno;

use crate::Socket;
use crate::links::Mac;
use crate::message::{Batch, CREATE, GET, GET_ADDRESS, GET_ROUTE, LIST, NEW_ADDRESS, NEW_NEIGHBOUR, NEW_ROUTE, PUT};
use crate::read::{Message, unsigned};

const IPV4: u8 = 2;
const IPV6: u8 = 10;

/// No search for a second owner: the agent gives an address to one only, and until the search ended it could not be used.
const NO_DUPLICATE_SEARCH: u8 = 2;
/// Known for good, not asked for.
const PERMANENT: u16 = 0x80;

const MAIN_TABLE: u8 = 254;
/// What an administrator, or a program for him, has put there.
const STATIC: u8 = 4;
const UNICAST: u8 = 1;
const SCOPE_ALL: u8 = 0;
const SCOPE_LINK: u8 = 253;
/// The gateway is behind the link, though no address of the link says so.
const ON_LINK: u32 = 4;
/// The route itself, not what it would do with a packet.
const MATCHED_ROUTE: u32 = 0x2000;

const ROUTE_FIXED: usize = 12;
const ADDRESS_FIXED: usize = 8;

/// A route, as far as a CHECK looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub length: u8,
    pub gateway: Option<IpAddr>,
    pub link: u32,
}

fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { IPV4 } else { IPV6 }
}

/// All of an address's bits.
pub fn full_length(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

fn read_address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
        _ => None,
    }
}

fn route(family: u8, length: u8, scope: u8, flags: u32) -> [u8; ROUTE_FIXED] {
    let mut bytes = [family, length, 0, 0, MAIN_TABLE, STATIC, scope, UNICAST, 0, 0, 0, 0];
    bytes[8..].copy_from_slice(&flags.to_ne_bytes());
    bytes
}

impl Batch {
    /// The address alone: nothing else is on the link.
    pub fn new_address(&mut self, link: u32, address: IpAddr) {
        let flags = if address.is_ipv4() { 0 } else { NO_DUPLICATE_SEARCH };
        let mut fixed = [family(address), full_length(address), flags, SCOPE_ALL, 0, 0, 0, 0];
        fixed[4..].copy_from_slice(&link.to_ne_bytes());
        self.message(NEW_ADDRESS, CREATE, &fixed, |attributes| {
            attributes.bytes(1, &octets(address));
            attributes.bytes(2, &octets(address));
        });
    }

    pub fn put_neighbour(&mut self, link: u32, address: IpAddr, mac: &Mac) {
        let mut fixed = [0; 12];
        fixed[0] = family(address);
        fixed[4..8].copy_from_slice(&link.to_ne_bytes());
        fixed[8..10].copy_from_slice(&PERMANENT.to_ne_bytes());
        self.message(NEW_NEIGHBOUR, PUT, &fixed, |attributes| {
            attributes.bytes(1, &octets(address));
            attributes.bytes(2, mac);
        });
    }

    /// To one address, straight through a link. One that another link has left behind gives way: the agent says whose the address is.
    pub fn put_host_route(&mut self, link: u32, address: IpAddr) {
        let fixed = route(family(address), full_length(address), SCOPE_LINK, 0);
        self.message(NEW_ROUTE, PUT, &fixed, |attributes| {
            attributes.bytes(1, &octets(address));
            attributes.number(4, link);
        });
    }

    /// To everywhere else.
    pub fn new_default_route(&mut self, link: u32, gateway: IpAddr) {
        let fixed = route(family(gateway), 0, SCOPE_ALL, ON_LINK);
        self.message(NEW_ROUTE, CREATE, &fixed, |attributes| {
            attributes.number(4, link);
            attributes.bytes(5, &octets(gateway));
        });
    }
}

impl Socket {
    pub fn addresses(&self, link: u32) -> Result<Vec<(IpAddr, u8)>, Errno> {
        let listed = self.ask(|batch| batch.message(GET_ADDRESS, LIST, &[0; ADDRESS_FIXED], |_| {}))?;
        let read = |message: &Message| {
            let index = message.content.get(4..).and_then(unsigned)?;
            let length = *message.content.get(1)?;
            let mut found = message.attributes(ADDRESS_FIXED).filter(|(kind, _)| *kind == 1);
            let address = found.next().and_then(|(_, bytes)| read_address(bytes))?;
            (index == link).then_some((address, length))
        };
        Ok(listed.iter().filter_map(read).collect())
    }

    /// Where a link's default routes go.
    pub fn default_gateways(&self, link: u32) -> Result<Vec<IpAddr>, Errno> {
        let listed = self.ask(|batch| batch.message(GET_ROUTE, LIST, &[0; ROUTE_FIXED], |_| {}))?;
        let defaults = listed
            .iter()
            .filter_map(read_route)
            .filter(|route| route.length == 0 && route.link == link);
        Ok(defaults.filter_map(|route| route.gateway).collect())
    }

    /// The most special route to an address.
    pub fn route_to(&self, address: IpAddr) -> Result<Option<Found>, Errno> {
        let mut fixed = [family(address), full_length(address), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        fixed[8..].copy_from_slice(&MATCHED_ROUTE.to_ne_bytes());
        let asked = self.ask(|batch| {
            batch.message(GET_ROUTE, GET, &fixed, |attributes| {
                attributes.bytes(1, &octets(address))
            });
        });
        match asked {
            Ok(messages) => Ok(messages.iter().find_map(read_route)),
            Err(Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NOENT) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn read_route(message: &Message) -> Option<Found> {
    let mut found = Found {
        length: *message.content.get(1)?,
        gateway: None,
        link: 0,
    };
    for (kind, value) in message.attributes(ROUTE_FIXED) {
        match kind {
            4 => found.link = unsigned(value)?,
            5 => found.gateway = read_address(value),
            _ => {}
        }
    }
    Some(found)
}
