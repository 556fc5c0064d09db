//! Machines of both shapes, read from the API. Parsing is lenient: a Machine that can't be read
//! must hold up no other.

mod initializers;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde_json::Value;

use crate::network::{Network, NetworkError};

pub use berth_api::machines::{NotAMachine, Shape};
pub use initializers::{INITIALIZER, INITIALIZERS, Initializers};

/// A Machine with a network that was read, and the rest as it is.
#[derive(Clone, Debug)]
pub struct Machine {
    pub shape: Shape,
    pub metadata: ObjectMeta,
    pub network: Result<Option<Network>, NetworkError>,
    pub value: Value,
}

impl Machine {
    pub fn of(shape: Shape, object: &DynamicObject) -> Self {
        let network = shape.network(&object.data);
        Self {
            shape,
            metadata: object.metadata.clone(),
            network: Network::read(network, shape.network_field()),
            value: object.data.clone(),
        }
    }

    /// From a document, as a person writes it.
    pub fn parse(yaml: &str) -> Result<Self, MachineError> {
        let value: Value =
            serde_saphyr::from_str(yaml).map_err(|error| MachineError::Yaml(error.to_string()))?;
        let shape = Shape::of(&value)?;
        let object: DynamicObject = serde_json::from_value(value)
            .map_err(|error| MachineError::Object(error.to_string()))?;
        Ok(Self::of(shape, &object))
    }

    /// The machine's host name: its node's name, or else its own.
    pub fn hostname(&self) -> &str {
        let of_node = self.value.pointer("/spec/metadata/name").and_then(Value::as_str);
        let own = self.metadata.name.as_deref().or(self.metadata.generate_name.as_deref());
        of_node.filter(|name| !name.is_empty()).or(own).unwrap_or_default()
    }

    /// Keys that may log in, where the provider's part names some.
    pub fn ssh_keys(&self) -> Vec<String> {
        let keys = self.shape.provider(&self.value).get("sshPublicKeys");
        let keys = keys.and_then(Value::as_array).into_iter().flatten();
        keys.filter_map(Value::as_str)
            .map(|key| key.trim().to_owned())
            .collect()
    }
}

/// Why a document is not a usable Machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    #[error("the document is not YAML: {0}")]
    Yaml(String),
    #[error("the document is not a Kubernetes object: {0}")]
    Object(String),
    #[error(transparent)]
    Kind(#[from] NotAMachine),
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error(
        "metadata.name: {name:?} can't be a host name: use at most 63 letters, digits and dashes"
    )]
    Hostname { name: String },
}
