//! What a request is about, and whether its caller may ask for it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::refusal::Refusal;
use crate::allocator::ContainerRef;

/// A subnet of a network, written as `network.subnet`: so it is called in the store, in the address plan, and in messages. A network's name
/// has no dot, so this can be read in one way only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubnetName(Arc<str>);

/// A name that can't be used: which part of it, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{field} {name:?}: use at most 63 lower-case letters, digits and dashes{dots}, and begin and end with a letter or a digit"
)]
pub struct BadName {
    pub field: &'static str,
    name: String,
    dots: &'static str,
}

impl SubnetName {
    pub fn new(network: &str, subnet: &str) -> Result<Self, BadName> {
        if !is_label(network) {
            return Err(bad_network(network));
        }
        if subnet.len() > 63 || !subnet.split('.').all(is_label) {
            return Err(BadName {
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

fn bad_network(name: &str) -> BadName {
    BadName {
        field: "network",
        name: name.to_owned(),
        dots: "",
    }
}

fn is_label(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= 63 && text.chars().all(|c| plain(c) || c == '-') && text.starts_with(plain) && text.ends_with(plain)
}

impl FromStr for SubnetName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
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
    pub fn has(&self, name: &SubnetName) -> bool {
        name.network() == self.0
    }
}

/// Who asks: the cluster that the client's certificate is for. Put into each request by the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub cluster: Arc<str>,
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        parts.extensions.get::<Self>().cloned().ok_or_else(Refusal::no_cluster)
    }
}

#[derive(Debug, Deserialize)]
struct NetworkPath {
    network: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Network {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let path = Path::<NetworkPath>::from_request_parts(parts, state).await;
        let Path(NetworkPath { network }) = path.map_err(|error| Refusal::invalid("path", error.body_text()))?;
        match is_label(&network) {
            true => Ok(Self(network)),
            false => Err(bad_network(&network).into()),
        }
    }
}

#[derive(Debug, Deserialize)]
struct SubnetPath {
    network: String,
    subnet: String,
}

impl<S: Send + Sync> FromRequestParts<S> for SubnetName {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let path = Path::<SubnetPath>::from_request_parts(parts, state).await;
        let Path(path) = path.map_err(|error| Refusal::invalid("path", error.body_text()))?;
        Ok(Self::new(&path.network, &path.subnet)?)
    }
}

/// A container of the caller's cluster: a handler never sees another one.
#[derive(Clone, Debug)]
pub struct ContainerOfCaller {
    pub subnet: SubnetName,
    pub container: ContainerRef,
}

#[derive(Debug, Deserialize)]
struct ContainerPath {
    cluster: String,
    node: String,
    uid: String,
}

impl<S: Send + Sync> FromRequestParts<S> for ContainerOfCaller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let subnet = SubnetName::from_request_parts(parts, state).await?;
        let path = Path::<ContainerPath>::from_request_parts(parts, state).await;
        let Path(ContainerPath { cluster, node, uid }) =
            path.map_err(|error| Refusal::invalid("path", error.body_text()))?;
        if *caller.cluster != *cluster {
            return Err(Refusal::wrong_cluster(&caller.cluster, &cluster));
        }
        let container = ContainerRef { cluster, node, uid };
        // Both owners are made of the same parts.
        container.primary()?;
        container.secondary()?;
        Ok(Self { subnet, container })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_apart_as_it_was_put_together() {
        let name = SubnetName::new("prod", "pods.v2").unwrap();
        assert_eq!((name.key(), name.subnet()), ("prod.pods.v2", "pods.v2"));
        assert_eq!(name.to_string().parse::<SubnetName>().unwrap(), name);
    }

    #[test]
    fn a_name_that_could_be_read_in_two_ways_is_refused_with_the_part_that_is_wrong() {
        for (network, subnet, field) in [
            ("prod.eu", "pods", "network"),
            ("", "pods", "network"),
            ("prod", "", "subnet"),
            ("prod", "pods/..", "subnet"),
            ("Prod", "pods", "network"),
            ("prod", "pods.", "subnet"),
            ("-", "pods", "network"),
        ] {
            assert_eq!(SubnetName::new(network, subnet).unwrap_err().field, field);
        }
        assert!(SubnetName::new("prod", &"p".repeat(64)).is_err());
    }
}
