//! What subnets are called where several clusters share them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A subnet of a network, written as `network.subnet` in the store, in the address plan, and in
/// messages. A network's name has no dot, so this can be read in one way only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubnetName(Arc<str>);

/// A name that can't be used: which part of it, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{field} {name:?}: use at most 63 lower-case letters, digits and dashes{dots}, and begin and \
     end with a letter or a digit"
)]
pub struct SubnetNameError {
    pub field: &'static str,
    name: String,
    dots: &'static str,
}

impl SubnetName {
    pub fn new(network: &str, subnet: &str) -> Result<Self, SubnetNameError> {
        if !is_label(network) {
            return Err(bad_network(network));
        }
        if subnet.len() > 63 || !subnet.split('.').all(is_label) {
            return Err(SubnetNameError {
                field: "subnet",
                name: subnet.to_owned(),
                dots: " (and dots between them)",
            });
        }
        Ok(Self(format!("{network}.{subnet}").into()))
    }

    pub fn network(&self) -> &str {
        self.0.split_once('.').map_or("", |(network, _)| network)
    }

    /// Without the network.
    pub fn subnet(&self) -> &str {
        self.0.split_once('.').map_or("", |(_, subnet)| subnet)
    }

    /// What the ledger calls it.
    pub fn key(&self) -> &str {
        &self.0
    }
}

fn bad_network(name: &str) -> SubnetNameError {
    SubnetNameError {
        field: "network",
        name: name.to_owned(),
        dots: "",
    }
}

fn is_label(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= 63
        && text.chars().all(|c| plain(c) || c == '-')
        && text.starts_with(plain)
        && text.ends_with(plain)
}

impl FromStr for SubnetName {
    type Err = SubnetNameError;

    fn from_str(text: &str) -> Result<Self, SubnetNameError> {
        let (network, subnet) = text.split_once('.').unwrap_or((text, ""));
        Self::new(network, subnet)
    }
}

impl fmt::Display for SubnetName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for SubnetName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for SubnetName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// All subnets of one network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network(String);

impl Network {
    pub fn new(name: String) -> Result<Self, SubnetNameError> {
        if is_label(&name) {
            Ok(Self(name))
        } else {
            Err(bad_network(&name))
        }
    }

    pub fn has(&self, name: &SubnetName) -> bool {
        name.network() == self.0
    }
}
