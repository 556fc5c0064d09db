//! A CIDR without host bits.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::family::{Family, number};
use crate::parse::{self, ParseError};

/// `10.0.0.0/8`. Host bits can't be set: `10.0.0.1/8` does not parse, and no constructor makes one.
///
/// ```
/// use berth_addr::Prefix;
///
/// let pods: Prefix = "10.64.0.0/16".parse()?;
/// assert!(pods.contains("10.64.7.9".parse()?));
/// let refused = "10.64.0.1/16".parse::<Prefix>().unwrap_err();
/// assert!(refused.to_string().contains("10.64.0.0/16"), "the error names the fix: {refused}");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    family: Family,
    first: u128,
    length: u8,
}

impl Prefix {
    /// Refuses host bits and a length beyond the family's.
    pub fn new(address: IpAddr, length: u8) -> Result<Self, ParseError> {
        Self::checked(address, length, || format!("{address}/{length}"))
    }

    /// The prefix of this length that `address` is in; `None` when there is no such length in its
    /// family.
    pub fn around(address: IpAddr, length: u8) -> Option<Self> {
        let family = Family::of(address);
        (length <= family.bits()).then(|| Self {
            family,
            first: number(address) & !family.host_mask(length),
            length,
        })
    }

    /// All addresses of a family: `0.0.0.0/0` or `::/0`.
    pub const fn all(family: Family) -> Self {
        Self {
            family,
            first: 0,
            length: 0,
        }
    }

    fn checked(
        address: IpAddr,
        length: u8,
        written: impl Fn() -> String,
    ) -> Result<Self, ParseError> {
        let prefix = Self::around(address, length).ok_or_else(|| ParseError::BadLength {
            value: written(),
            longest: Family::of(address).bits(),
        })?;
        if prefix.first != number(address) {
            return Err(ParseError::HostBits {
                value: written(),
                fix: prefix.to_string(),
            });
        }
        Ok(prefix)
    }

    pub fn family(self) -> Family {
        self.family
    }

    pub fn length(self) -> u8 {
        self.length
    }

    pub fn first(self) -> IpAddr {
        self.family.address(self.first)
    }

    pub fn last(self) -> IpAddr {
        self.family.address(self.last_number())
    }

    pub(crate) fn first_number(self) -> u128 {
        self.first
    }

    pub(crate) fn last_number(self) -> u128 {
        self.first | self.family.host_mask(self.length)
    }

    pub fn is_single(self) -> bool {
        self.length == self.family.bits()
    }

    /// The number of addresses. Saturates: `::/0` counts one less than the 2^128 it has.
    pub fn size(self) -> u128 {
        self.family.host_mask(self.length).saturating_add(1)
    }

    /// The prefix of the same length `count` places after this one; `None` past the family's last
    /// address.
    pub fn after(self, count: u128) -> Option<Self> {
        let host_mask = self.family.host_mask(self.length);
        let distance = host_mask.checked_mul(count)?.checked_add(count)?;
        let first = self.first.checked_add(distance)?;
        (first <= self.family.last()).then_some(Self { first, ..self })
    }

    pub fn contains(self, address: IpAddr) -> bool {
        Self::around(address, self.length) == Some(self)
    }

    /// Whether all of `other` is inside.
    pub fn covers(self, other: Self) -> bool {
        self.length <= other.length && self.contains(other.first())
    }

    pub fn overlaps(self, other: Self) -> bool {
        self.covers(other) || other.covers(self)
    }
}

impl From<IpAddr> for Prefix {
    fn from(address: IpAddr) -> Self {
        let family = Family::of(address);
        Self {
            family,
            first: number(address),
            length: family.bits(),
        }
    }
}

impl FromStr for Prefix {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let Some((address, length)) = text.split_once('/') else {
            return Err(ParseError::NoLength {
                value: text.to_owned(),
                fix: Self::from(parse::address(text, text)?).to_string(),
            });
        };
        let address = parse::address(address, text)?;
        let length = parse::length(length).ok_or_else(|| ParseError::BadLength {
            value: text.to_owned(),
            longest: Family::of(address).bits(),
        })?;
        Self::checked(address, length, || text.to_owned())
    }
}

impl TryFrom<IpNet> for Prefix {
    type Error = ParseError;

    fn try_from(net: IpNet) -> Result<Self, ParseError> {
        Self::new(net.addr(), net.prefix_len())
    }
}

impl From<Prefix> for IpNet {
    fn from(prefix: Prefix) -> Self {
        Self::new_assert(prefix.first(), prefix.length)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first(), self.length)
    }
}

/// As in `Display`: a failing test shows `10.0.0.0/8`, not a number.
impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    fn refusal(text: &str) -> String {
        text.parse::<Prefix>().unwrap_err().to_string()
    }

    #[test]
    fn those_after_it_have_its_length_and_end_with_the_family() {
        let after = |text, count| prefix(text).after(count).map(|found| found.to_string());
        assert_eq!(after("10.0.0.0/32", 200).as_deref(), Some("10.0.0.200/32"));
        assert_eq!(after("10.0.0.0/24", 3).as_deref(), Some("10.0.3.0/24"));
        assert_eq!(after("fd00::/64", 255).as_deref(), Some("fd00:0:0:ff::/64"));
        assert_eq!(after("255.255.255.0/32", 255).as_deref(), Some("255.255.255.255/32"));
        assert_eq!(after("255.255.255.255/32", 1), None);
        assert_eq!(after("128.0.0.0/1", 1), None);
        assert_eq!(after("8000::/1", 1), None);
        assert_eq!(after("::/0", 0).as_deref(), Some("::/0"));
        assert_eq!(after("::/0", 1), None);
    }

    #[test]
    fn its_size_is_the_number_of_its_addresses() {
        let size = |text| prefix(text).size();
        assert_eq!(size("10.0.0.0/32"), 1);
        assert_eq!(size("0.0.0.0/0"), 1 << 32);
        assert_eq!(size("fd00::/64"), 1 << 64);
        assert_eq!(size("::/0"), u128::MAX);
    }

    #[test]
    fn host_bits_are_refused_with_the_prefix_that_was_meant() {
        assert_eq!(
            refusal("10.0.0.1/8"),
            "\"10.0.0.1/8\" has host bits set: write 10.0.0.0/8"
        );
        assert_eq!(
            refusal("fd64::1/64"),
            "\"fd64::1/64\" has host bits set: write fd64::/64"
        );
    }

    #[test]
    fn a_bare_address_is_refused_with_its_length() {
        assert_eq!(
            refusal("10.0.0.1"),
            "\"10.0.0.1\" has no prefix length: write 10.0.0.1/32"
        );
    }

    #[test]
    fn a_length_is_a_plain_number_within_the_family() {
        for text in [
            "10.0.0.0/33",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0.0/08",
            "10.0.0.0/-1",
            "10.0.0.0/8/8",
        ] {
            assert!(refusal(text).contains("from 0 to 32"), "{text}");
        }
        assert!(refusal("::/129").contains("from 0 to 128"));
        assert!(refusal("10.0.0.256/8").contains("is not an IP address"));
    }

    #[test]
    fn both_ends_are_right_from_the_whole_space_to_one_address() {
        for (text, first, last) in [
            ("0.0.0.0/0", "0.0.0.0", "255.255.255.255"),
            ("10.64.0.0/16", "10.64.0.0", "10.64.255.255"),
            ("10.0.0.7/32", "10.0.0.7", "10.0.0.7"),
            ("::/0", "::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
            ("fd64::/64", "fd64::", "fd64::ffff:ffff:ffff:ffff"),
            ("fd64::7/128", "fd64::7", "fd64::7"),
        ] {
            assert_eq!(prefix(text).first().to_string(), first);
            assert_eq!(prefix(text).last().to_string(), last);
        }
    }

    #[test]
    fn prefixes_overlap_only_if_one_contains_the_other() {
        assert!(prefix("10.0.0.0/8").overlaps(prefix("10.64.0.0/16")));
        assert!(prefix("10.64.0.0/16").overlaps(prefix("10.0.0.0/8")));
        assert!(!prefix("10.0.0.0/9").overlaps(prefix("10.128.0.0/9")));
        assert!(!prefix("0.0.0.0/0").overlaps(prefix("::/0")));
    }

    #[test]
    fn goes_to_ipnet_and_back_and_refuses_one_with_host_bits() {
        let net = IpNet::from(prefix("10.64.0.0/16"));
        assert_eq!(net.to_string(), "10.64.0.0/16");
        assert_eq!(Prefix::try_from(net).unwrap(), prefix("10.64.0.0/16"));
        assert!(Prefix::try_from("10.0.0.1/8".parse::<IpNet>().unwrap()).is_err());
    }

    #[test]
    fn is_a_string_in_json_and_a_bad_one_says_why() {
        assert_eq!(serde_json::to_string(&prefix("fd64::/64")).unwrap(), "\"fd64::/64\"");
        assert_eq!(
            serde_json::from_str::<Prefix>("\"10.0.0.0/8\"").unwrap(),
            prefix("10.0.0.0/8")
        );
        let error = serde_json::from_str::<Prefix>("\"10.0.0.1/8\"").unwrap_err();
        assert!(error.to_string().contains("write 10.0.0.0/8"), "{error}");
    }
}
