//! NodeNetworkConfig: what a node's agent asks for (spec) and what it was given (status).
//!
//! The wire form is Azure's, down to the misspelt `subcriptionID`: an unmodified Azure CNS reads
//! and writes these objects. So no field is required, zero values may be left out, and lengths are
//! bounded only in the fields that the agent writes. The rules refuse only what no working agent
//! asks for:
//!
//! - a `requestedIPCount` below 0. CNS writes -1 when the status has no scaler. The API server
//!   refuses that, the last good count stays, and CNS tries again. Our controllers write the scaler
//!   with the first network container, so this does not happen with them.
//! - a `requestedIPCount` raised above `status.scaler.maxIPCount`. The rule is only about raising
//!   it: if the maximum is lowered below the current count, the controller must still be able to
//!   write the status and remove the finalizer.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::format::{self, NewerFormat};

/// The annotation of a NodeNetworkConfig with the addresses that pods on the node have although the
/// status does not list them, as JSON in the form of `ipAssignments`. The node's agent writes it.
/// An agent that does not know it leaves it alone.
pub const HELD_ANNOTATION: &str = "berth.dev/held";

/// The first format is a list. A later one is an object with a field `format`.
const HELD_FORMAT: u64 = format::FIRST;

/// An agent of a later release holds addresses that this program cannot read. No address may be
/// leased that could be one of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("NodeNetworkConfig {node}: metadata.annotations[{HELD_ANNOTATION}]: {newer}")]
pub struct UnknownHeld {
    pub node: String,
    #[source]
    pub newer: NewerFormat,
}

/// The addresses that the agent holds although the status does not list them. An annotation that
/// cannot be parsed counts as empty, unless it declares a later format.
pub fn held_of(nnc: &NodeNetworkConfig) -> Result<Vec<IpAssignment>, UnknownHeld> {
    let annotations = nnc.metadata.annotations.as_ref();
    let Some(held) = annotations.and_then(|annotations| annotations.get(HELD_ANNOTATION)) else {
        return Ok(Vec::new());
    };
    NewerFormat::check_json(held.as_bytes(), HELD_FORMAT).map_err(|newer| UnknownHeld {
        node: nnc.metadata.name.clone().unwrap_or_default(),
        newer,
    })?;
    Ok(serde_json::from_str(held).unwrap_or_default())
}

/// What the agent requests. Once the object exists, only the agent writes it.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "acn.azure.com",
    version = "v1alpha",
    kind = "NodeNetworkConfig",
    plural = "nodenetworkconfigs",
    shortname = "nnc",
    namespaced,
    status = "NodeNetworkConfigStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "The addresses of one node: how many its agent asks for, and which ones it has.",
    validation = Rule::new(
        "self.spec.requestedIPCount <= oldSelf.spec.requestedIPCount || \
         !has(self.status) || !has(self.status.scaler) || !has(self.status.scaler.maxIPCount) || \
         self.spec.requestedIPCount <= self.status.scaler.maxIPCount"
    )
    .message(
        "is more than status.scaler.maxIPCount: ask for at most that, or raise \
         scaler.maxIPCount of the Subnet"
    )
    .field_path(".spec.requestedIPCount"),
    printcolumn(name = "Requested IPs", type_ = "integer", json_path = ".spec.requestedIPCount", priority = "1"),
    printcolumn(name = "Availability Zone", type_ = "string", json_path = ".spec.availabilityZone", priority = "1"),
    printcolumn(name = "Allocated IPs", type_ = "integer", json_path = ".status.assignedIPCount"),
    printcolumn(
        name = "Subnet",
        type_ = "string",
        json_path = ".status.networkContainers[*].subnetName",
        priority = "1"
    ),
    printcolumn(
        name = "Subnet CIDR",
        type_ = "string",
        json_path = ".status.networkContainers[*].subnetAddressSpace",
        priority = "1"
    ),
    printcolumn(
        name = "Subnet CIDR v6",
        type_ = "string",
        json_path = ".status.networkContainers[*].subnetAddressSpaceV6",
        priority = "1"
    ),
    printcolumn(name = "NC ID", type_ = "string", json_path = ".status.networkContainers[*].id", priority = "1"),
    printcolumn(name = "NC Mode", type_ = "string", json_path = ".status.networkContainers[*].assignmentMode"),
    printcolumn(name = "NC Type", type_ = "string", json_path = ".status.networkContainers[*].type", priority = "1"),
    printcolumn(name = "NC Version", type_ = "integer", json_path = ".status.networkContainers[*].version")
)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetworkConfigSpec {
    /// How many secondary addresses the agent requests, without the primary one and without those
    /// in ipsNotInUse.
    #[serde(rename = "requestedIPCount", default)]
    #[schemars(range(min = 0))]
    pub requested_ip_count: i64,

    /// Names of the ipAssignments that the agent gives back. Names that are gone already are
    /// ignored.
    #[serde(rename = "ipsNotInUse", default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 65536), inner(length(max = 253)))]
    pub ips_not_in_use: Vec<String>,

    /// The zone that the node is in, as a number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub availability_zone: Option<u64>,
}

/// What the node was given. Only the controllers write it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeNetworkConfigStatus {
    /// How many secondary addresses the node has.
    #[serde(rename = "assignedIPCount", default)]
    pub assigned_ip_count: i64,

    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaler: Option<Scaler>,

    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Progress>,

    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub network_containers: Vec<NetworkContainer>,
}

/// How the agent sizes its pool. All four must be there: without them CNS gives all of its
/// addresses back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Scaler {
    /// The agent asks for addresses in multiples of this.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub batch_size: i64,

    /// The agent gives addresses back when this share of a batch is free.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub release_threshold_percent: i64,

    /// The agent asks for more when less than this share of a batch is free.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub request_threshold_percent: i64,

    /// The most that the node may ask for.
    #[serde(rename = "maxIPCount", default, skip_serializing_if = "is_zero")]
    pub max_ip_count: i64,
}

/// Where the controller stands with the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Progress {
    Updating,
    Updated,
    Error,
}

/// A network container: the addresses that a node has in one subnet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkContainer {
    /// In lower case: if the id has capital letters, CNS leaves the addresses pending for ever.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,

    #[serde(default)]
    pub assignment_mode: AssignmentMode,

    /// vnet, vnetblock or overlay.
    #[serde(rename = "type", default = "vnet")]
    pub container_type: String,

    /// An address, or a CIDR when the mode is static: then every address in it is for pods.
    #[serde(rename = "primaryIP", default, skip_serializing_if = "String::is_empty")]
    pub primary_ip: String,

    #[serde(rename = "primaryIPV6", default, skip_serializing_if = "Option::is_none")]
    pub primary_ip_v6: Option<String>,

    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subnet_name: String,

    /// The secondary addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ip_assignments: Vec<IpAssignment>,

    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_gateway: Option<String>,

    #[serde(rename = "defaultGatewayV6", default, skip_serializing_if = "Option::is_none")]
    pub default_gateway_v6: Option<String>,

    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,

    /// The CIDR whose prefix length the pods' addresses have.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subnet_address_space: String,

    #[serde(rename = "subnetAddressSpaceV6", default, skip_serializing_if = "Option::is_none")]
    pub subnet_address_space_v6: Option<String>,

    /// Goes up with every change of the addresses.
    #[serde(default)]
    pub version: i64,

    /// The node's own address: CNS skips a network container with another nodeIP.
    #[serde(rename = "nodeIP", default, skip_serializing_if = "String::is_empty")]
    pub node_ip: String,

    /// Misspelt on the wire: Azure's programs use this name.
    #[serde(rename = "subcriptionID", default, skip_serializing_if = "Option::is_none")]
    pub subscription_id: Option<String>,

    #[serde(rename = "resourceGroupID", default, skip_serializing_if = "Option::is_none")]
    pub resource_group_id: Option<String>,

    #[serde(rename = "vnetID", default, skip_serializing_if = "Option::is_none")]
    pub vnet_id: Option<String>,

    #[serde(rename = "subnetID", default, skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<String>,

    /// How the last change of this container went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<ContainerStatus>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AssignmentMode {
    /// Addresses come and go one by one, in ipAssignments.
    #[default]
    Dynamic,
    /// The container has a fixed CIDR.
    Static,
}

/// Addresses of the node's network, leased in batches.
pub const VNET: &str = "vnet";
/// Like `vnet`, in blocks: `ipAssignments` hold CIDRs.
pub const VNET_BLOCK: &str = "vnetblock";
/// A podCIDR of the node's own.
pub const OVERLAY: &str = "overlay";

fn vnet() -> String {
    VNET.to_owned()
}

/// One secondary address. A name is never used twice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IpAssignment {
    /// A UUID.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,

    /// A bare address (CNS refuses a /32), or a CIDR in a container of type vnetblock.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub ip: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ContainerStatus {
    #[serde(rename = "NCUpdateSubnetFullError")]
    SubnetFull,
    #[serde(rename = "NCUpdateInternalServerError")]
    InternalServerError,
    #[serde(rename = "NCUpdateUnauthorizedError")]
    Unauthorized,
    #[serde(rename = "NCUpdateSuccess")]
    Success,
    #[serde(rename = "NCUpdateFailed")]
    Failed,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(number: &i64) -> bool {
    *number == 0
}
