//! The requests of a plugin.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Requests addresses, or gives them back. It is read as Go reads it: names of fields in any case,
/// and `null` as missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IpConfigsRequest {
    /// The addresses to give: exactly these; empty for any.
    #[serde(rename = "desiredIPAddresses", alias = "desiredipaddresses")]
    pub desired: Vec<String>,
    /// The key of an attachment: azure-ipam sends the container's id.
    #[serde(rename = "podInterfaceID", alias = "podinterfaceid")]
    pub pod_interface: String,
    #[serde(rename = "infraContainerID", alias = "infracontainerid")]
    pub infra_container: String,
    /// An object that names the pod: see [`IpConfigsRequest::context`].
    #[serde(rename = "orchestratorContext", alias = "orchestratorcontext")]
    pub orchestrator_context: Value,
    pub ifname: String,
    #[serde(rename = "secondaryInterfacesExist", alias = "secondaryinterfacesexist")]
    pub has_secondary_interfaces: bool,
    #[serde(rename = "BackendInterfaceExist", alias = "backendinterfaceexist")]
    pub has_backend_interface: bool,
    /// Misspelt on the wire.
    #[serde(rename = "BacknendInterfaceMacAddress", alias = "backnendinterfacemacaddress")]
    pub backend_macs: Vec<String>,
}

/// The older form, for one address.
#[derive(Default, Deserialize)]
#[serde(default)]
struct IpConfigRequest {
    #[serde(rename = "desiredipaddress")]
    desired: String,
    #[serde(flatten)]
    rest: IpConfigsRequest,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OrchestratorContext {
    #[serde(rename = "PodName", alias = "podname")]
    pub pod_name: String,
    #[serde(rename = "PodNamespace", alias = "podnamespace")]
    pub pod_namespace: String,
}

#[derive(Debug, thiserror::Error)]
#[error("Failed to decode request: {0}")]
pub struct Undecodable(#[from] serde_json::Error);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAContext {
    #[error(
        "orchestratorContext is not set: name the pod in it, as {{\"podName\": \"…\", \
         \"podNamespace\": \"…\"}}"
    )]
    Missing,
    #[error(
        "orchestratorContext can't be read: {0}; name the pod in it, as {{\"podName\": \
         \"…\", \"podNamespace\": \"…\"}}"
    )]
    Unreadable(String),
}

impl IpConfigsRequest {
    pub fn read(body: &[u8]) -> Result<Self, Undecodable> {
        read(serde_json::from_slice(body)?)
    }

    /// Reads the older form.
    pub fn read_one(body: &[u8]) -> Result<Self, Undecodable> {
        let IpConfigRequest { desired, mut rest } = read(serde_json::from_slice(body)?)?;
        rest.desired = vec![desired];
        Ok(rest)
    }

    pub fn context(&self) -> Result<OrchestratorContext, NotAContext> {
        match &self.orchestrator_context {
            Value::Null => Err(NotAContext::Missing),
            Value::Object(context) => read(context.clone().into_iter().collect())
                .map_err(|Undecodable(error)| NotAContext::Unreadable(error.to_string())),
            _ => Err(NotAContext::Unreadable("it is not an object".to_owned())),
        }
    }
}

/// Reads as Go does: names of fields in any case, and `null` as missing.
pub(super) fn read<T: DeserializeOwned>(object: BTreeMap<String, Value>) -> Result<T, Undecodable> {
    let given = object.into_iter().filter(|(_, value)| !value.is_null());
    let lower = given.map(|(name, value)| (name.to_lowercase(), value)).collect();
    Ok(serde_json::from_value(Value::Object(lower))?)
}
