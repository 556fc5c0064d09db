//! `--network "cidr,gateway,dns1,dns2"`: a network for machines, as it is given to a process.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use berth_addr::{ParseError, Plan, Prefix};
use berth_api::subnet::Use;
use berth_api::{Subnet, SubnetSpec};

use super::pools::NETWORK_LABEL;

/// One CIDR with its gateway and its name servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkFlag {
    pub cidr: Prefix,
    pub gateway: Option<IpAddr>,
    pub dns: Vec<IpAddr>,
}

/// What is wrong with it, and what to write.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlagError {
    #[error(
        "{text:?}: the first part must be a CIDR, as in \
         \"192.168.1.128/25,192.168.1.1,192.168.1.1\""
    )]
    Cidr { text: String },
    #[error("{text:?}: {cidr} has host bits set: write {fix}, if that is the network you mean")]
    HostBits { text: String, cidr: String, fix: String },
    #[error("{text:?}: {part:?} is no IP address")]
    Address { text: String, part: String },
    #[error(
        "{text:?}: {what} {address} is of another family than {cidr}: give it with a \
         CIDR of its own family"
    )]
    Family {
        text: String,
        what: &'static str,
        address: IpAddr,
        cidr: Prefix,
    },
    #[error("{text:?}: {cidr} has no address left to hand out: use a larger one")]
    Empty { text: String, cidr: Prefix },
    #[error("{one} and {other} overlap: remove one of them")]
    Overlap { one: Prefix, other: Prefix },
}

impl FromStr for NetworkFlag {
    type Err = FlagError;

    fn from_str(text: &str) -> Result<Self, FlagError> {
        let mut parts = text.split(',').map(str::trim);
        let cidr = parse_cidr(text, parts.next().unwrap_or_default())?;
        let address = |part: &str, what: &'static str| -> Result<IpAddr, FlagError> {
            let (text, part) = (text.to_owned(), part.to_owned());
            let Ok(address) = part.parse::<IpAddr>() else {
                return Err(FlagError::Address { text, part });
            };
            if address.is_ipv4() != cidr.first().is_ipv4() {
                return Err(FlagError::Family {
                    text,
                    what,
                    address,
                    cidr,
                });
            }
            Ok(address)
        };
        // A machine that needs no way out has no gateway: "10.0.0.0/24,,10.0.0.53".
        let gateway = parts.next().filter(|part| !part.is_empty());
        let gateway = gateway.map(|part| address(part, "the gateway")).transpose()?;
        let dns = parts
            .filter(|part| !part.is_empty())
            .map(|part| address(part, "the name server"));
        let flag = Self {
            cidr,
            gateway,
            dns: dns.collect::<Result<_, _>>()?,
        };
        if flag.capacity() == 0 {
            let text = text.to_owned();
            return Err(FlagError::Empty { text, cidr });
        }
        Ok(flag)
    }
}

fn parse_cidr(text: &str, part: &str) -> Result<Prefix, FlagError> {
    let text = || text.to_owned();
    if !part.contains('/') {
        return Err(FlagError::Cidr { text: text() });
    }
    part.parse().map_err(|error| match error {
        ParseError::HostBits { fix, .. } => FlagError::HostBits {
            text: text(),
            cidr: part.to_owned(),
            fix,
        },
        _ => FlagError::Cidr { text: text() },
    })
}

impl NetworkFlag {
    /// Several, in the order in which they are to be tried.
    pub fn check_all(flags: &[Self]) -> Result<(), FlagError> {
        for (number, flag) in flags.iter().enumerate() {
            if let Some(other) = flags[..number].iter().find(|other| other.cidr.overlaps(flag.cidr))
            {
                return Err(FlagError::Overlap {
                    one: other.cidr,
                    other: flag.cidr,
                });
            }
        }
        Ok(())
    }

    fn capacity(&self) -> u128 {
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

    /// The Subnet for it. `order` is its place among the others.
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
        assert!(why("192.168.1.1,192.168.1.2").contains("must be a CIDR"));
        assert!(why("10.0.0.0/24,x").contains("\"x\" is no IP address"));
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
    fn two_that_overlap_are_refused() {
        let flags: Vec<NetworkFlag> = ["10.0.0.0/24", "10.0.0.128/25"]
            .map(|text| text.parse().unwrap())
            .into();
        let error = NetworkFlag::check_all(&flags).unwrap_err().to_string();
        assert_eq!(error, "10.0.0.0/24 and 10.0.0.128/25 overlap: remove one of them");
    }
}
