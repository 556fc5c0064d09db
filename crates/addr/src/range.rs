//! From one address to another, both included.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Prefix;
use crate::family::{Family, number};
use crate::parse::{self, ParseError};

/// `10.64.1.10-10.64.1.99`. Also read from a CIDR or a single address; never empty and never
/// reversed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Range {
    family: Family,
    first: u128,
    last: u128,
}

impl Range {
    pub fn new(first: IpAddr, last: IpAddr) -> Result<Self, ParseError> {
        Self::checked(first, last, || format!("{first}-{last}"))
    }

    fn checked(
        first: IpAddr,
        last: IpAddr,
        written: impl Fn() -> String,
    ) -> Result<Self, ParseError> {
        let family = Family::of(first);
        if family != Family::of(last) {
            return Err(ParseError::MixedFamilies { value: written() });
        }
        let (first, last) = (number(first), number(last));
        if first > last {
            return Err(ParseError::Reversed {
                value: written(),
                fix: Self::of_numbers(family, last, first).to_string(),
            });
        }
        Ok(Self::of_numbers(family, first, last))
    }

    /// The caller ensures that `first` is not above `last`, and that both are in the family.
    pub(crate) fn of_numbers(family: Family, first: u128, last: u128) -> Self {
        Self { family, first, last }
    }

    pub fn family(self) -> Family {
        self.family
    }

    pub fn first(self) -> IpAddr {
        self.family.address(self.first)
    }

    pub fn last(self) -> IpAddr {
        self.family.address(self.last)
    }

    pub(crate) fn first_number(self) -> u128 {
        self.first
    }

    pub(crate) fn last_number(self) -> u128 {
        self.last
    }

    /// Saturates: the whole of IPv6 counts one less than the 2^128 it has.
    pub fn count(self) -> u128 {
        (self.last - self.first).saturating_add(1)
    }

    pub fn contains(self, address: IpAddr) -> bool {
        Family::of(address) == self.family && (self.first..=self.last).contains(&number(address))
    }

    pub fn overlaps(self, other: Self) -> bool {
        self.family == other.family && self.first <= other.last && other.first <= self.last
    }
}

impl From<Prefix> for Range {
    fn from(prefix: Prefix) -> Self {
        Self::of_numbers(prefix.family(), prefix.first_number(), prefix.last_number())
    }
}

impl From<IpAddr> for Range {
    fn from(address: IpAddr) -> Self {
        Prefix::from(address).into()
    }
}

impl FromStr for Range {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        if text.contains('/') {
            return text.parse::<Prefix>().map(Self::from);
        }
        match text.split_once('-') {
            None => parse::address(text, text).map(Self::from),
            Some((first, last)) => {
                Self::checked(parse::address(first, text)?, parse::address(last, text)?, || {
                    text.to_owned()
                })
            }
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            return write!(f, "{}", self.first());
        }
        write!(f, "{}-{}", self.first(), self.last())
    }
}

/// As in `Display`: a failing test shows addresses, not numbers.
impl fmt::Debug for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for Range {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Range {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        parse::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> Range {
        text.parse().unwrap()
    }

    fn refusal(text: &str) -> String {
        text.parse::<Range>().unwrap_err().to_string()
    }

    #[test]
    fn a_cidr_and_a_single_address_are_ranges_too() {
        assert_eq!(range("10.64.7.0/28"), range("10.64.7.0-10.64.7.15"));
        assert_eq!(range("fd64::7"), range("fd64::7-fd64::7"));
    }

    #[test]
    fn reversed_ends_are_refused_with_the_fix() {
        assert_eq!(
            refusal("10.64.1.99-10.64.1.10"),
            "\"10.64.1.99-10.64.1.10\" ends before it begins: write 10.64.1.10-10.64.1.99"
        );
    }

    #[test]
    fn what_is_no_range_is_refused_by_name() {
        assert!(refusal("10.0.0.1-fd64::1").contains("mixes IPv4 and IPv6"));
        assert!(refusal("10.64.7.1/28").contains("write 10.64.7.0/28"));
        for text in [
            "",
            "-",
            "10.0.0.1-",
            "-10.0.0.1",
            "10.0.0.1 - 10.0.0.2",
            "a-b",
            "10.0.0.1-10.0.0.2-10.0.0.3",
        ] {
            assert!(refusal(text).contains("is not an IP address"), "{text}");
        }
    }

    #[test]
    fn counts_exactly_but_for_the_whole_of_ipv6() {
        assert_eq!(range("10.64.1.10-10.64.1.99").count(), 90);
        assert_eq!(range("0.0.0.0/0").count(), 1 << 32);
        assert_eq!(range("::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff").count(), u128::MAX);
        assert_eq!(range("::/0").count(), u128::MAX);
    }

    #[test]
    fn is_a_string_in_json() {
        let text = "\"10.64.1.10-10.64.1.99\"";
        let read: Range = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert!(serde_json::from_str::<Range>("\"2-1\"").is_err());
    }
}
