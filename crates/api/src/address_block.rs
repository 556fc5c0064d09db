//! AddressBlock: the owners of 256 units. The unit of compare-and-swap of the kubernetes store;
//! nothing else reads or writes it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::CustomResource;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::names::SUBNET_LABEL;

/// Which units are owned and which cool down. The ledger writes the object whole, and only over the
/// resourceVersion that it read, so that two writers can't both lease a unit. There is no status:
/// the spec is a record, not a request.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "berth.dev",
    version = "v1alpha1",
    kind = "AddressBlock",
    plural = "addressblocks",
    derive = "PartialEq",
    derive = "Default",
    doc = "The owners of up to 256 units of a Subnet. Written by the ledger; to be read, not \
           edited.",
    printcolumn(name = "Subnet", type_ = "string", json_path = ".spec.subnet"),
    printcolumn(name = "First", type_ = "string", json_path = ".spec.first"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[schemars(extend("x-kubernetes-validations" = [{
    // No unit is both owned and released: the ledger's most important promise, which the API server
    // enforces too.
    "rule": "!has(self.owned) || !has(self.released) || self.owned.all(k, !(k in self.released))",
    "message": "has a unit that is owned too: take it out of one of the two",
    "fieldPath": ".released",
}]))]
pub struct AddressBlockSpec {
    /// The Subnet that the block belongs to.
    #[schemars(length(min = 1, max = 63), extend("x-kubernetes-validations" = [fixed()]))]
    pub subnet: String,

    /// The first unit, as a CIDR. The unit at offset n is n units further.
    #[schemars(length(max = 43), extend("x-kubernetes-validations" = [fixed(), no_host_bits()]))]
    pub first: String,

    /// The format of the block; 1 when it is left out. A program that does not know it leaves the
    /// block as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<i64>,

    /// The units that are owned, by offset from 0 to 255.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "by_offset::<Owner>")]
    pub owned: BTreeMap<Offset, Owner>,

    /// When the units that may still cool down were released, by offset from 0 to 255.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "by_offset::<MicroTime>")]
    pub released: BTreeMap<Offset, MicroTime>,
}

/// Who has a unit, and under which lease.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Owner {
    #[schemars(length(min = 1, max = 512))]
    pub owner: String,

    #[schemars(length(min = 1, max = 253))]
    pub lease: String,

    /// When it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<MicroTime>,
}

/// A unit's place in its block. It is a string on the wire, as JSON keys are: where serde has to
/// buffer, it can't read a key back as a plain `u8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Offset(pub u8);

impl From<Offset> for String {
    fn from(offset: Offset) -> Self {
        offset.0.to_string()
    }
}

impl TryFrom<String> for Offset {
    type Error = std::num::ParseIntError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse().map(Self)
    }
}

impl AddressBlock {
    /// A block without owners. `name` is the name of the block, from
    /// `berth_addr::Layout::block_name`.
    pub fn empty(subnet: &str, name: &str, first: berth_addr::Prefix) -> Self {
        Self {
            metadata: ObjectMeta {
                name: Some(Self::object_name(subnet, name)),
                labels: Some([(SUBNET_LABEL.to_owned(), subnet.to_owned())].into()),
                ..ObjectMeta::default()
            },
            spec: AddressBlockSpec {
                subnet: subnet.to_owned(),
                first: first.to_string(),
                ..AddressBlockSpec::default()
            },
        }
    }

    pub fn object_name(subnet: &str, block: &str) -> String {
        format!("{subnet}-{block}")
    }
}

fn by_offset<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "maxProperties": 256,
        // Atomic, because the map is written whole. Otherwise the API server would store the writer
        // of each offset, which takes more space than all the rest.
        "x-kubernetes-map-type": "atomic",
        "additionalProperties": generator.subschema_for::<T>(),
        "x-kubernetes-validations": [{
            "rule": "self.all(k, k.matches('^(0|[1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-5])$'))",
            "message": "has a key that is not an offset: use numbers from 0 to 255",
        }],
    })
}

fn fixed() -> Value {
    json!({"rule": "self == oldSelf", "message": "can not be changed: it says which block this is"})
}

fn no_host_bits() -> Value {
    json!({
        "rule": "isCIDR(self) && cidr(self) == cidr(self).masked()",
        "message": "is not a CIDR without host bits: write it like 10.64.1.0/32",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_named_and_labelled_after_its_subnet() {
        let block = AddressBlock::empty("pods", "10.64.1.0", "10.64.1.0/32".parse().unwrap());
        assert_eq!(block.metadata.name.as_deref(), Some("pods-10.64.1.0"));
        assert_eq!(block.metadata.labels.unwrap()["berth.dev/subnet"], "pods");
    }

    #[test]
    fn owners_round_trip_by_offset_even_when_serde_buffers() {
        #[derive(Deserialize)]
        #[serde(tag = "type", content = "object")]
        enum Event {
            Added(AddressBlock),
        }

        let wire = json!({
            "object": {
                "apiVersion": "berth.dev/v1alpha1",
                "kind": "AddressBlock",
                "metadata": {"name": "pods-10.64.1.0"},
                "spec": {
                    "subnet": "pods",
                    "first": "10.64.1.0/32",
                    "owned": {
                        "3": {"owner": "container/a", "lease": "l1"},
                        "255": {"owner": "container/b", "lease": "l2"},
                    },
                    "released": {"7": "2026-11-15T04:00:00.000000Z"},
                },
            },
            "type": "Added",
        });
        let Event::Added(block) = serde_json::from_str(&wire.to_string()).unwrap();
        assert_eq!(block.spec.owned[&Offset(3)].owner, "container/a");
        assert_eq!(serde_json::to_value(&block).unwrap(), wire["object"]);
    }
}
