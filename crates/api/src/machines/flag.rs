//! A network for machines: one CIDR with its gateway and name servers, and the rules for it.
//! `--network "cidr,gateway,dns1,dns2"` gives one to a process; a Cluster names several.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use berth_addr::{Family, ParseError, Plan, Prefix};

use crate::subnet::Use;
use crate::{Subnet, SubnetSpec};

/// The label of Subnets that machines draw on; its value is a number, and lower ones are tried
/// first.
pub const NETWORK_LABEL: &str = "berth.dev/machine-network";

/// One CIDR with its gateway and its name servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkFlag {
    pub cidr: Prefix,
    pub gateway: Option<IpAddr>,
    pub dns: Vec<IpAddr>,
}

/// The part of a network that a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Cidr,
    Gateway,
    /// A name server, by its index.
    Dns(usize),
}

impl fmt::Display for Part {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Cidr => "the CIDR",
            Self::Gateway => "the gateway",
            Self::Dns(_) => "the name server",
        })
    }
}

/// An error in a network, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error("{text:?} is not a CIDR: write it like 192.168.1.128/25")]
    Cidr { text: String },
    #[error("{cidr} has host bits set: write {fix}, if that is the network you mean")]
    HostBits { cidr: String, fix: String },
    #[error("{text:?} is not an IP address: write {part} like 192.168.1.1")]
    Address { part: Part, text: String },
    #[error(
        "{part} {address} is of another family than {cidr}: give it with a CIDR of its own family"
    )]
    Family { part: Part, address: IpAddr, cidr: Prefix },
    #[error("{cidr} has no address left to hand out: use a larger one")]
    Empty { cidr: Prefix },
    #[error("{one} and {other} overlap: remove one of them")]
    Overlap { one: Prefix, other: Prefix },
}

impl RuleError {
    pub fn part(&self) -> Part {
        match self {
            Self::Address { part, .. } | Self::Family { part, .. } => *part,
            Self::Cidr { .. }
            | Self::HostBits { .. }
            | Self::Empty { .. }
            | Self::Overlap { .. } => Part::Cidr,
        }
    }
}

/// An error in the text of a flag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?}: {source}")]
pub struct FlagError {
    text: String,
    source: RuleError,
}

impl FromStr for NetworkFlag {
    type Err = FlagError;

    fn from_str(text: &str) -> Result<Self, FlagError> {
        let mut parts = text.split(',').map(str::trim);
        let cidr = parts.next().unwrap_or_default();
        // The gateway may be empty, for machines without a way out: "10.0.0.0/24,,10.0.0.53".
        let gateway = parts.next().unwrap_or_default();
        let dns: Vec<&str> = parts.collect();
        Self::new(cidr, gateway, &dns).map_err(|mut errors| FlagError {
            text: text.to_owned(),
            source: errors.swap_remove(0),
        })
    }
}

fn parse_cidr(text: &str) -> Result<Prefix, RuleError> {
    let wrong = || RuleError::Cidr { text: text.to_owned() };
    if !text.contains('/') {
        return Err(wrong());
    }
    text.parse().map_err(|error| match error {
        ParseError::HostBits { fix, .. } => RuleError::HostBits {
            cidr: text.to_owned(),
            fix,
        },
        _ => wrong(),
    })
}

fn parse_address(part: Part, text: &str, cidr: Option<Prefix>) -> Result<IpAddr, RuleError> {
    let Ok(address) = text.parse::<IpAddr>() else {
        let text = text.to_owned();
        return Err(RuleError::Address { part, text });
    };
    match cidr {
        Some(cidr) if cidr.first().is_ipv4() != address.is_ipv4() => {
            Err(RuleError::Family { part, address, cidr })
        }
        _ => Ok(address),
    }
}

/// How many machines can have an address. If there are networks of both families, each machine
/// takes an address of each family.
pub fn machines_that_fit(networks: &[NetworkFlag]) -> u128 {
    let of_family = |family: Family| {
        let mut all = networks.iter().filter(|one| one.cidr.family() == family).peekable();
        all.peek()?;
        Some(all.fold(0_u128, |sum, one| sum.saturating_add(one.capacity())))
    };
    let fits = [Family::V4, Family::V6].into_iter().filter_map(of_family);
    fits.min().unwrap_or(0)
}

impl NetworkFlag {
    /// On failure, returns all errors in the order of the parts. An empty gateway or name server
    /// counts as missing.
    pub fn new(cidr: &str, gateway: &str, dns: &[&str]) -> Result<Self, Vec<RuleError>> {
        let mut errors = Vec::new();
        let cidr = parse_cidr(cidr).map_err(|error| errors.push(error)).ok();
        let mut address = |part, text: &str| {
            let parsed = (!text.is_empty()).then(|| parse_address(part, text, cidr))?;
            parsed.map_err(|error| errors.push(error)).ok()
        };
        let gateway = address(Part::Gateway, gateway);
        let dns = dns.iter().enumerate();
        let dns = dns.filter_map(|(place, text)| address(Part::Dns(place), text));
        let dns: Vec<IpAddr> = dns.collect();
        let Some(cidr) = cidr else { return Err(errors) };
        let network = Self { cidr, gateway, dns };
        if errors.is_empty() && network.capacity() == 0 {
            errors.push(RuleError::Empty { cidr });
        }
        if errors.is_empty() { Ok(network) } else { Err(errors) }
    }

    /// Checks that no two of the networks overlap.
    pub fn check_all(flags: &[Self]) -> Result<(), RuleError> {
        for (number, flag) in flags.iter().enumerate() {
            if let Some(other) = flags[..number].iter().find(|other| other.cidr.overlaps(flag.cidr))
            {
                return Err(RuleError::Overlap {
                    one: other.cidr,
                    other: flag.cidr,
                });
            }
        }
        Ok(())
    }

    /// The number of addresses for machines: without the unusable ends of the CIDR, the gateway and
    /// the name servers.
    pub fn capacity(&self) -> u128 {
        let plan = Plan {
            cidrs: vec![self.cidr],
            reservations: self.gateway.iter().chain(&self.dns).copied().collect(),
            ..Plan::default()
        };
        let layouts = plan.layouts().unwrap_or_default();
        layouts.values().map(berth_addr::Layout::capacity).sum()
    }

    /// `machines-192.168.1.128-25`: each CIDR has a Subnet of its own, as each has its own gateway.
    pub fn subnet_name(&self) -> String {
        let text = self.cidr.to_string().replace([':', '/'], "-");
        format!("machines-{text}")
    }

    /// The Subnet of the network. `order` is the network's index among all networks.
    pub fn subnet(&self, order: usize) -> Subnet {
        let spec = SubnetSpec {
            usage: Use::Machines,
            cidrs: vec![self.cidr.to_string()],
            gateways: self.gateway.iter().map(ToString::to_string).collect(),
            dns: self.dns.iter().map(ToString::to_string).collect(),
            ..SubnetSpec::default()
        };
        let mut subnet = Subnet::new(&self.subnet_name(), spec);
        let label = (NETWORK_LABEL.to_owned(), order.to_string());
        subnet.metadata.labels = Some([label].into());
        subnet
    }
}

impl fmt::Display for NetworkFlag {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{},", self.cidr)?;
        if let Some(gateway) = self.gateway {
            write!(out, "{gateway}")?;
        }
        self.dns.iter().try_for_each(|dns| write!(out, ",{dns}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(text: &str) -> String {
        text.parse::<NetworkFlag>().unwrap_err().to_string()
    }

    #[test]
    fn the_fields_form_is_read_and_written() {
        for text in [
            "192.168.1.128/25,192.168.1.1,8.8.8.8,8.8.4.4",
            "fd00::/64,fd00::1",
            "10.0.0.0/24,",
        ] {
            assert_eq!(text.parse::<NetworkFlag>().unwrap().to_string(), text);
        }
        let flag: NetworkFlag = "10.0.0.0/24".parse().unwrap();
        assert_eq!((flag.gateway, flag.dns.len()), (None, 0));
    }

    #[test]
    fn a_subnet_is_made_of_it_that_is_valid() {
        for text in [
            "192.168.1.128/25,192.168.1.1,192.168.1.1",
            "fd00:0:0:1::/64,fe80::1,fd00::53",
        ] {
            let flag: NetworkFlag = text.parse().unwrap();
            let subnet = flag.subnet(0);
            subnet.validate().unwrap();
            let name = subnet.metadata.name.unwrap();
            let plain =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
            assert!(name.chars().all(plain) && name.len() <= 63, "{name}");
        }
    }

    #[test]
    fn bad_networks_are_refused_with_the_fix() {
        assert!(why("192.168.1.129/25,192.168.1.1").contains("write 192.168.1.128/25"));
        assert!(why("192.168.1.1,192.168.1.2").contains("is not a CIDR"));
        assert!(why("10.0.0.0/24,x").contains("\"x\" is not an IP address"));
        assert!(why("10.0.0.0/24,fd00::1").contains("the gateway fd00::1 is of another family"));
        assert!(
            why("fd00::/64,fd00::1,8.8.8.8")
                .contains("the name server 8.8.8.8 is of another family")
        );
        assert!(why("10.0.0.1/32,10.0.0.1").contains("no address left"));
        assert!(why("10.0.0.0/31,10.0.0.0,10.0.0.1").contains("no address left"));
        assert!("10.0.0.0/31,10.0.0.0".parse::<NetworkFlag>().is_ok());
        assert!("fd00::/127,fd00::1".parse::<NetworkFlag>().is_ok());
        assert!("10.0.0.7/32,10.0.0.1".parse::<NetworkFlag>().is_ok());
    }

    #[test]
    fn every_part_that_is_wrong_is_told_at_once() {
        let errors = NetworkFlag::new("10.0.0.1/24", "x", &["", "y"]).unwrap_err();
        let parts: Vec<Part> = errors.iter().map(RuleError::part).collect();
        assert_eq!(parts, [Part::Cidr, Part::Gateway, Part::Dns(1)]);
    }

    #[test]
    fn machines_fit_by_the_family_that_has_fewer() {
        let networks = |texts: &[&str]| -> Vec<NetworkFlag> {
            texts.iter().map(|text| text.parse().unwrap()).collect()
        };
        assert_eq!(machines_that_fit(&[]), 0);
        // The gateway is outside of the first, and inside of the second.
        let v4 = ["192.168.1.128/25,192.168.1.1", "10.0.0.0/29,10.0.0.1"];
        assert_eq!(machines_that_fit(&networks(&v4)), 126 + 5);
        assert_eq!(machines_that_fit(&networks(&[v4[0], v4[1], "fd00::/64"])), 126 + 5);
        assert!(machines_that_fit(&networks(&["fd00::/64"])) > u128::from(u32::MAX));
    }

    #[test]
    fn two_that_overlap_are_refused() {
        let flags: Vec<NetworkFlag> = ["10.0.0.0/24", "10.0.0.128/25"]
            .map(|text| text.parse().unwrap())
            .into();
        let error = NetworkFlag::check_all(&flags).unwrap_err().to_string();
        assert_eq!(error, "10.0.0.0/24 and 10.0.0.128/25 overlap: remove one of them");
    }
}
