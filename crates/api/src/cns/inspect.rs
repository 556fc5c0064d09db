//! What the agent's debug paths show to people and tools.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Outcome;
use super::request::{Undecodable, read};
use crate::agent::{AddressLine, AddressState};
use crate::cni::{Attachment, PodRef};

/// Which states are asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StateFilter {
    #[serde(rename = "ipconfigstatefilter")]
    states: Vec<String>,
}

impl StateFilter {
    /// An empty body asks for all states.
    pub fn read(body: &[u8]) -> Result<Self, Undecodable> {
        if body.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        let object: BTreeMap<String, Value> = serde_json::from_slice(body)?;
        read(object)
    }

    pub fn takes(&self, status: &AddressStatus) -> bool {
        self.states.is_empty() || self.states.iter().any(|state| state == status.state)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct IpAddresses {
    #[serde(rename = "IPConfigurationStatus")]
    pub addresses: Vec<AddressStatus>,
    #[serde(rename = "Response")]
    pub response: Outcome,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct PodContext {
    /// The names of addresses by the pod's interface.
    pub pod_context: BTreeMap<String, Vec<String>>,
    pub response: Outcome,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RestData {
    #[serde(rename = "HTTPRestServiceData")]
    pub data: ServiceData,
    #[serde(rename = "Response")]
    pub response: Outcome,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServiceData {
    #[serde(rename = "PodIPIDByPodInterfaceKey")]
    pub ids: BTreeMap<String, Vec<String>>,
    #[serde(rename = "PodIPConfigState")]
    pub states: BTreeMap<String, AddressStatus>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AddressStatus {
    pub state: &'static str,
    #[serde(rename = "ID")]
    pub id: String,
    #[serde(rename = "IPAddress")]
    pub address: IpAddr,
    #[serde(rename = "NCID")]
    pub container: String,
    #[serde(rename = "PodInfo")]
    pub pod: Option<PodInfo>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PodInfo {
    #[serde(rename = "PodName")]
    pub name: String,
    #[serde(rename = "PodNamespace")]
    pub namespace: String,
    #[serde(rename = "PodInfraContainerID")]
    pub infra_container: String,
    #[serde(rename = "PodInterfaceID")]
    pub interface: String,
}

impl From<AddressLine> for AddressStatus {
    fn from(line: AddressLine) -> Self {
        let state = match line.state {
            AddressState::Free | AddressState::CoolingDown => "Available",
            AddressState::Assigned => "Assigned",
            AddressState::Releasing => "PendingRelease",
            AddressState::Quarantined => "PendingProgramming",
        };
        // If the node has the whole CIDR of a network container, its addresses have no names.
        let id = if line.name.is_empty() {
            line.address.to_string()
        } else {
            line.name
        };
        let pod = line
            .attachment
            .map(|attachment| info(attachment, line.pod.unwrap_or_default()));
        Self {
            state,
            id,
            address: line.address,
            container: line.container,
            pod,
        }
    }
}

fn info(attachment: Attachment, pod: PodRef) -> PodInfo {
    PodInfo {
        name: pod.name,
        namespace: pod.namespace,
        infra_container: attachment.container.clone(),
        interface: attachment.container,
    }
}

/// The ids of the addresses that a pod has, by the pod's interface.
pub fn by_interface(statuses: &[AddressStatus]) -> BTreeMap<String, Vec<String>> {
    let mut ids: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for status in statuses {
        if let Some(pod) = &status.pod {
            ids.entry(pod.interface.clone()).or_default().push(status.id.clone());
        }
    }
    ids
}
