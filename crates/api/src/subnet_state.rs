//! ClusterSubnetState: whether a subnet runs out of addresses, for the agents that draw on it.
//! Azure's wire form; it has no spec.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// No fields: a ClusterSubnetState has only a status.
#[derive(
    CustomResource, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "acn.azure.com",
    version = "v1alpha1",
    kind = "ClusterSubnetState",
    plural = "clustersubnetstates",
    namespaced,
    no_spec,
    status = "ClusterSubnetStateStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Whether the subnet of the same name is exhausted. While it is, agents keep one \
           spare address and no more.",
    printcolumn(name = "Exhausted", type_ = "string", json_path = ".status.exhausted"),
    printcolumn(name = "Updated", type_ = "string", json_path = ".status.timestamp")
)]
pub struct NoSpec {}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterSubnetStateStatus {
    /// Whether the subnet is exhausted, so that agents keep fewer spare addresses.
    pub exhausted: bool,

    /// When exhausted or scaler last changed, in RFC 3339.
    pub timestamp: String,

    /// How agents size their pools while the subnet is exhausted. Agents that do not know it keep
    /// one spare address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaler: Option<Scaler>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Scaler {
    /// Agents ask for addresses in multiples of this.
    pub batch: i64,

    /// How many spare addresses a node keeps: 0 while another node waits for addresses.
    pub buffer: i64,
}
