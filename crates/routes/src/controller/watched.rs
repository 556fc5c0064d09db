//! A Node, read no further than routes need: most of a Node is images, and most of its metadata is
//! who wrote which field.

use k8s_openapi::api::core::v1::Node as KubernetesNode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::ObjectMeta;
use serde::{Deserialize, Deserializer};

use crate::core::{Address, Cidr, Condition, Node};

#[derive(Clone, Debug, Default, Deserialize)]
pub struct WatchedNode {
    #[serde(default, deserialize_with = "trimmed")]
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

/// What of it is read: labels, annotations and managed fields are not.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    name: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    creation_timestamp: Option<Time>,
}

fn trimmed<'de, D: Deserializer<'de>>(input: D) -> Result<ObjectMeta, D::Error> {
    let read = Metadata::deserialize(input)?;
    Ok(ObjectMeta {
        name: read.name,
        uid: read.uid,
        resource_version: read.resource_version,
        creation_timestamp: read.creation_timestamp,
        ..ObjectMeta::default()
    })
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Spec {
    #[serde(default, rename = "podCIDR")]
    pod_cidr: String,
    #[serde(default, rename = "podCIDRs")]
    pod_cidrs: Vec<String>,
    #[serde(default, rename = "providerID")]
    provider_id: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    addresses: Vec<WatchedAddress>,
    #[serde(default)]
    conditions: Vec<WatchedCondition>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct WatchedAddress {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    address: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct WatchedCondition {
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    reason: String,
}

impl From<WatchedNode> for Node {
    fn from(watched: WatchedNode) -> Self {
        let WatchedNode {
            metadata,
            spec,
            status,
        } = watched;
        let created = metadata.creation_timestamp;
        let mut cidrs: Vec<Cidr> = spec
            .pod_cidrs
            .iter()
            .map(|one| one.as_str().into())
            .collect();
        if cidrs.is_empty() && !spec.pod_cidr.is_empty() {
            cidrs.push(spec.pod_cidr.as_str().into());
        }
        let unavailable = |one: &WatchedCondition| one.kind == "NetworkUnavailable";
        let condition = status.conditions.into_iter().find(unavailable);
        let addresses = status.addresses.into_iter();
        Self {
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            created: created.map_or(0, |time| time.0.as_second()),
            cidrs,
            addresses: addresses
                .map(|one| Address {
                    kind: one.kind,
                    address: one.address,
                })
                .collect(),
            provider_id: spec.provider_id,
            condition: condition.map(|one| Condition {
                status: one.status,
                reason: one.reason,
            }),
        }
    }
}

berth_kit::view_of!(WatchedNode, KubernetesNode);
