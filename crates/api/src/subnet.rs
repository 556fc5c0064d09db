//! Subnet: address space, what it is for, and how it is handed out.

mod duration;
mod rules;
mod validate;

use berth_addr::Family;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use validate::{Invalid, ValidSubnet};

use crate::{Count, nnc};

pub use duration::parse as parse_duration;

/// A Subnet's name is also the value of a label, so it may not be longer than one.
pub const MAX_NAME_LENGTH: u8 = 63;

/// Address space and how to hand it out.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "berth.dev",
    version = "v1alpha1",
    kind = "Subnet",
    plural = "subnets",
    shortname = "subnet",
    status = "SubnetStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Address space for pods, for the podCIDRs of nodes, or for machines.",
    printcolumn(name = "Use", type_ = "string", json_path = ".spec.use"),
    printcolumn(name = "CIDRs", type_ = "string", json_path = ".spec.cidrs"),
    printcolumn(name = "Capacity", type_ = "string", json_path = ".status.capacity"),
    printcolumn(name = "Reserved", type_ = "string", json_path = ".status.reserved"),
    printcolumn(name = "Free", type_ = "string", json_path = ".status.free"),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = r#".status.conditions[?(@.type=="Ready")].status"#
    ),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules::spec()))]
pub struct SubnetSpec {
    /// What the addresses are for. It can't be changed.
    #[serde(rename = "use", default)]
    #[schemars(extend("x-kubernetes-validations" = rules::fixed()))]
    pub usage: Use,

    /// The address space, tried in this order within a family. CIDRs may be appended, but not
    /// removed or changed.
    #[schemars(schema_with = "rules::cidrs")]
    pub cidrs: Vec<String>,

    /// Hand out only these, all inside the cidrs: FIRST-LAST, CIDRs or single addresses. Empty:
    /// all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::ranges")]
    pub ranges: Vec<String>,

    /// Never hand out these, all inside the cidrs: FIRST-LAST, CIDRs or single addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::excludes")]
    pub excludes: Vec<String>,

    /// The prefix lengths that are handed out.
    #[serde(default, skip_serializing_if = "UnitLengths::is_empty")]
    pub unit_lengths: UnitLengths,

    /// Routers, inside the cidrs unless use is machines. Never handed out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::addresses")]
    pub gateways: Vec<String>,

    /// Name servers. Never handed out when inside the cidrs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "rules::addresses")]
    pub dns: Vec<String>,

    /// The nodes that draw on this subnet. Empty: all. If several Subnets with the same use select
    /// a node, it draws on the first of them by name.
    #[serde(default, skip_serializing_if = "is_empty")]
    #[schemars(schema_with = "rules::node_selector")]
    pub node_selector: LabelSelector,

    #[serde(default)]
    pub scaler: Scaler,

    #[serde(default)]
    pub exhaustion: Exhaustion,

    /// How long an address cools down after its release, for example 30s or 1m30s. A subnet that
    /// runs short shortens it.
    #[serde(default = "half_a_minute")]
    #[schemars(schema_with = "rules::reuse_delay")]
    pub reuse_delay: String,
}

#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// Addresses for the network containers of nodes.
    #[default]
    Pods,
    /// One podCIDR for each node.
    NodeCidrs,
    /// Addresses for machines and claims.
    Machines,
}

/// The length of what is handed out, by family. What is left out follows from `use`: see
/// [`SubnetSpec::unit_length`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnitLengths {
    /// Left out: 24 when use is node-cidrs, else 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = *rules::IPV4_UNIT.start(), max = *rules::IPV4_UNIT.end()))]
    pub ipv4: Option<u8>,

    /// Left out: 64 when use is node-cidrs, else 128.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = *rules::IPV6_UNIT.start(), max = *rules::IPV6_UNIT.end()))]
    pub ipv6: Option<u8>,
}

impl UnitLengths {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// How the agents of its nodes size their pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules::scaler()))]
pub struct Scaler {
    /// Agents ask for addresses in multiples of this.
    #[schemars(range(min = *rules::BATCH_SIZE.start(), max = *rules::BATCH_SIZE.end()))]
    pub batch_size: i64,

    /// An agent asks for more when less than this share of a batch is free.
    #[schemars(range(min = *rules::REQUEST_THRESHOLD.start(), max = *rules::REQUEST_THRESHOLD.end()))]
    pub request_threshold_percent: i64,

    /// An agent gives addresses back when more than this share of a batch is free. If the two
    /// thresholds are less than 100 apart, it may ask for more again at once.
    #[schemars(range(min = *rules::RELEASE_THRESHOLD.start(), max = *rules::RELEASE_THRESHOLD.end()))]
    pub release_threshold_percent: i64,

    /// The most that one node may ask for.
    #[serde(rename = "maxIPCount")]
    #[schemars(range(min = *rules::MAX_IP_COUNT.start(), max = *rules::MAX_IP_COUNT.end()))]
    pub max_ip_count: i64,
}

impl Default for Scaler {
    fn default() -> Self {
        Self {
            batch_size: 16,
            request_threshold_percent: 50,
            release_threshold_percent: 150,
            max_ip_count: 250,
        }
    }
}

impl From<Scaler> for nnc::Scaler {
    fn from(scaler: Scaler) -> Self {
        Self {
            batch_size: scaler.batch_size,
            release_threshold_percent: scaler.release_threshold_percent,
            request_threshold_percent: scaler.request_threshold_percent,
            max_ip_count: scaler.max_ip_count,
        }
    }
}

/// When the subnet counts as exhausted. Two thresholds, so that it does not flap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules::exhaustion()))]
pub struct Exhaustion {
    /// Exhausted once more than this share is reserved.
    #[schemars(range(min = *rules::EXHAUSTION_THRESHOLD.start(), max = *rules::EXHAUSTION_THRESHOLD.end()))]
    pub enter_percent: i64,

    /// No longer exhausted once less than this share is reserved.
    #[schemars(range(min = *rules::EXHAUSTION_THRESHOLD.start(), max = *rules::EXHAUSTION_THRESHOLD.end()))]
    pub leave_percent: i64,
}

impl Default for Exhaustion {
    fn default() -> Self {
        Self {
            enter_percent: 95,
            leave_percent: 90,
        }
    }
}

/// How full the Subnet is, in units.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct SubnetStatus {
    /// The generation of the spec that the rest of the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,

    /// How often a controller has started to work on the ledger, as the ledger counts it: a ledger
    /// with a lower count was restored from an older copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<i64>,

    /// The CIDRs in use: those of the spec, or the earlier ones if a change of the spec was
    /// refused. No other Subnet may have them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cidrs: Vec<String>,

    /// All units that may be handed out. A string if the number does not fit 53 bits, like the
    /// other counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Count>,

    /// Owned by somebody.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Count>,

    /// Released, and not to be used again yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cooling_down: Option<Count>,

    /// Neither reserved nor cooling down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<Count>,

    /// How many more pods can start on its nodes: the free units and the spare addresses of nodes,
    /// less what pods without an address still need. Written by the scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods_that_fit: Option<Count>,

    /// Ready, Overlapping and Exhausted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("maxItems" = 16, "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// The defaults of the CRD. The spec has no cidrs, so it is not valid yet.
impl Default for SubnetSpec {
    fn default() -> Self {
        Self {
            usage: Use::default(),
            cidrs: Vec::new(),
            ranges: Vec::new(),
            excludes: Vec::new(),
            unit_lengths: UnitLengths::default(),
            gateways: Vec::new(),
            dns: Vec::new(),
            node_selector: LabelSelector::default(),
            scaler: Scaler::default(),
            exhaustion: Exhaustion::default(),
            reuse_delay: half_a_minute(),
        }
    }
}

impl SubnetSpec {
    /// The prefix length of the units of this family: as set, or the default for `use`.
    pub fn unit_length(&self, family: Family) -> u8 {
        let set = match family {
            Family::V4 => self.unit_lengths.ipv4,
            Family::V6 => self.unit_lengths.ipv6,
        };
        set.unwrap_or(match (self.usage, family) {
            (Use::NodeCidrs, Family::V4) => 24,
            (Use::NodeCidrs, Family::V6) => 64,
            (Use::Pods | Use::Machines, _) => family.bits(),
        })
    }
}

fn half_a_minute() -> String {
    "30s".to_owned()
}

fn is_empty(selector: &LabelSelector) -> bool {
    *selector == LabelSelector::default()
}
