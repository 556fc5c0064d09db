//! Reading addresses as people write them. Every error names the value and, if there is one, the
//! correct spelling.

use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, de::Error};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    #[error("{value:?} is not an IP address: write it like 10.0.0.1 or fd00::1")]
    NotAnAddress { value: String },
    #[error("{value:?} has no prefix length: write {fix}")]
    NoLength { value: String, fix: String },
    #[error(
        "{value:?} has a bad prefix length: write a number from 0 to {longest} after the slash"
    )]
    BadLength { value: String, longest: u8 },
    #[error("{value:?} has host bits set: write {fix}")]
    HostBits { value: String, fix: String },
    #[error("{value:?} ends before it begins: write {fix}")]
    Reversed { value: String, fix: String },
    #[error("{value:?} mixes IPv4 and IPv6: write both ends in one family")]
    MixedFamilies { value: String },
}

/// `whole` is the user's text, and its `part` should be an address.
pub(crate) fn address(part: &str, whole: &str) -> Result<IpAddr, ParseError> {
    part.parse().map_err(|_| ParseError::NotAnAddress {
        value: whole.to_owned(),
    })
}

/// Digits only, because `u8::from_str` also accepts "+8", and no leading zero, because others read
/// "010" as 8.
pub(crate) fn length(text: &str) -> Option<u8> {
    let canonical = text == "0" || !text.starts_with(['0', '+']);
    canonical.then(|| text.parse().ok()).flatten()
}

pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: FromStr<Err = ParseError>,
    D: Deserializer<'de>,
{
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}
