//! The two address families, and addresses as numbers.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

/// Written as Kubernetes writes it in `ipFamilies`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Family {
    #[serde(rename = "IPv4")]
    V4,
    #[serde(rename = "IPv6")]
    V6,
}

impl Family {
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// The length of a prefix that is a single address.
    pub const fn bits(self) -> u8 {
        match self {
            Self::V4 => 32,
            Self::V6 => 128,
        }
    }

    /// The highest address as a number; the lowest is 0.
    pub const fn last(self) -> u128 {
        match self {
            Self::V4 => 0xffff_ffff,
            Self::V6 => u128::MAX,
        }
    }

    /// The bits below a prefix of this length. 0 from the full length on.
    pub(crate) fn host_mask(self, length: u8) -> u128 {
        self.last().checked_shr(length.into()).unwrap_or(0)
    }

    /// The address with this number. Numbers beyond the family's last address give the last one.
    pub fn address(self, number: u128) -> IpAddr {
        match self {
            Self::V4 => Ipv4Addr::from_bits(u32::try_from(number).unwrap_or(u32::MAX)).into(),
            Self::V6 => Ipv6Addr::from_bits(number).into(),
        }
    }
}

/// An address as a number within its family.
pub fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_and_number_round_trip_at_both_ends_of_each_family() {
        for family in Family::ALL {
            for n in [0, 1, family.last() - 1, family.last()] {
                assert_eq!(number(family.address(n)), n);
                assert_eq!(Family::of(family.address(n)), family);
            }
        }
    }

    #[test]
    fn is_written_as_kubernetes_writes_it() {
        assert_eq!(serde_json::to_string(&Family::V4).unwrap(), "\"IPv4\"");
        assert_eq!(Family::V6.to_string(), "IPv6");
    }
}
