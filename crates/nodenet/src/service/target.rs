//! What a request is about, and whether its caller may ask for it.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use serde::Deserialize;

use super::error::ServiceError;
use super::name::{Network, SubnetName};
use crate::allocator::ContainerRef;

/// The cluster that the client's certificate is for. The connection puts it into each request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub cluster: Arc<str>,
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ServiceError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ServiceError> {
        parts
            .extensions
            .get::<Self>()
            .cloned()
            .ok_or_else(ServiceError::no_cluster)
    }
}

#[derive(Debug, Deserialize)]
struct NetworkPath {
    network: String,
}

impl<S: Send + Sync> FromRequestParts<S> for Network {
    type Rejection = ServiceError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ServiceError> {
        let path = Path::<NetworkPath>::from_request_parts(parts, state).await;
        let Path(NetworkPath { network }) =
            path.map_err(|error| ServiceError::invalid("path", error.body_text()))?;
        Ok(Self::new(network)?)
    }
}

#[derive(Debug, Deserialize)]
struct SubnetPath {
    network: String,
    subnet: String,
}

impl<S: Send + Sync> FromRequestParts<S> for SubnetName {
    type Rejection = ServiceError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ServiceError> {
        let path = Path::<SubnetPath>::from_request_parts(parts, state).await;
        let Path(path) = path.map_err(|error| ServiceError::invalid("path", error.body_text()))?;
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
    type Rejection = ServiceError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ServiceError> {
        let caller = Caller::from_request_parts(parts, state).await?;
        let subnet = SubnetName::from_request_parts(parts, state).await?;
        let path = Path::<ContainerPath>::from_request_parts(parts, state).await;
        let Path(ContainerPath { cluster, node, uid }) =
            path.map_err(|error| ServiceError::invalid("path", error.body_text()))?;
        if *caller.cluster != *cluster {
            return Err(ServiceError::wrong_cluster(&caller.cluster, &cluster));
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
    fn an_invalid_name_is_refused_with_the_invalid_part() {
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
