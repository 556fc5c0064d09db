//! The network of a machine: its addresses, gateways and name servers. It is read from a Machine of
//! either shape and checked, so that later code can rely on it.

mod read;
mod write;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use berth_addr::{Family, Prefix};

pub use read::NetworkError;

/// The network configuration that a machine gets instead of using DHCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// At least one. IPv4 before IPv6.
    pub addresses: Vec<Address>,
    /// Name servers, in this order.
    pub dns: Vec<IpAddr>,
    /// Search domains for short names.
    pub search: Vec<String>,
    pub interface: Interface,
}

/// An address with its prefix length, and the gateway of its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub ip: IpAddr,
    pub length: u8,
    pub gateway: Option<IpAddr>,
}

/// The machine's interface that gets the network.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Interface {
    /// The only interface, whatever its name.
    #[default]
    Any,
    Name(String),
    /// Six bytes in hexadecimal, lower case, with colons.
    Mac(String),
}

impl Address {
    pub fn family(self) -> Family {
        match self.ip {
            IpAddr::V4(_) => Family::V4,
            IpAddr::V6(_) => Family::V6,
        }
    }

    /// The network of the address. The length was checked when the address was made.
    pub fn network(self) -> Option<Prefix> {
        Prefix::around(self.ip, self.length)
    }

    /// The gateway, if the machine first needs a route to it: the gateway is outside of the
    /// address's network.
    pub fn on_link_gateway(self) -> Option<IpAddr> {
        let inside = |gateway| self.network().is_some_and(|network| network.contains(gateway));
        // A link-local address of a router is always on the link.
        let local =
            |gateway: &IpAddr| matches!(gateway, IpAddr::V6(v6) if v6.is_unicast_link_local());
        self.gateway.filter(|gateway| !inside(*gateway) && !local(gateway))
    }

    /// The netmask of an IPv4 address. `None` for IPv6.
    pub fn netmask(self) -> Option<Ipv4Addr> {
        let hosts = u32::MAX.checked_shr(self.length.into()).unwrap_or(0);
        (self.family() == Family::V4).then(|| Ipv4Addr::from(!hosts))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.ip, self.length)
    }
}

impl Network {
    pub fn of(&self, family: Family) -> impl Iterator<Item = Address> {
        self.addresses
            .iter()
            .copied()
            .filter(move |address| address.family() == family)
    }

    /// Name servers of one family: some formats list the families separately.
    pub fn dns_of(&self, family: Family) -> impl Iterator<Item = IpAddr> {
        let v4 = family == Family::V4;
        self.dns.iter().copied().filter(move |dns| dns.is_ipv4() == v4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(ip: &str, length: u8, gateway: &str) -> Address {
        Address {
            ip: ip.parse().unwrap(),
            length,
            gateway: Some(gateway.parse().unwrap()),
        }
    }

    #[test]
    fn a_gateway_outside_of_the_network_needs_a_route() {
        let seed = address("192.168.1.129", 25, "192.168.1.1");
        assert_eq!(seed.on_link_gateway(), seed.gateway);
        assert_eq!(address("192.168.1.129", 24, "192.168.1.1").on_link_gateway(), None);
        assert_eq!(address("fd00::5", 64, "fe80::1").on_link_gateway(), None);
    }

    #[test]
    fn a_netmask_is_that_of_the_length() {
        let mask = |length| address("10.0.0.1", length, "10.0.0.2").netmask().unwrap().to_string();
        assert_eq!(mask(25), "255.255.255.128");
        assert_eq!(mask(32), "255.255.255.255");
        assert_eq!(mask(0), "0.0.0.0");
        assert_eq!(address("fd00::5", 64, "fe80::1").netmask(), None);
    }
}
