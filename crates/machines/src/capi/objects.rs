//! Claims and addresses, as far as we read them. Parsing is lenient: an object that can't be read
//! must hold up no other.

use std::net::IpAddr;

use berth_addr::Family;
use berth_kit::watch::Key;
use berth_ledger::{Kind, NotAnOwner, Owner};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::core::DynamicObject;
use serde_json::Value;

/// On an IPAddress until its lease is about to end.
pub const FINALIZER: &str = "berth.dev/ip-address";
/// On a claim: this very address.
pub const ADDRESS: &str = "berth.dev/ip-address";
/// On a claim: `ipv4` or `ipv6`, where the Subnet has both. Left out: IPv4.
pub const FAMILY: &str = "berth.dev/ip-family";
/// On an IPAddress: the Subnet's name servers, separated by commas.
pub const DNS_SERVERS: &str = "berth.dev/dns-servers";

const CLUSTER_LABEL: &str = "cluster.x-k8s.io/cluster-name";
const PAUSED: &str = "cluster.x-k8s.io/paused";

#[derive(Clone, Debug)]
pub struct Claim {
    pub metadata: ObjectMeta,
    /// `None` if it is another provider's.
    pub pool: Option<String>,
    pub value: Value,
}

#[derive(Clone, Debug)]
pub struct Address {
    pub metadata: ObjectMeta,
    pub pool: Option<String>,
    /// `None` when it can't be read.
    pub ip: Option<IpAddr>,
    /// The name of its claim.
    pub claim: String,
}

/// Drops managedFields, which are most of it and which nothing here reads: answers to writes have
/// them, watches do not.
fn metadata(object: &DynamicObject) -> ObjectMeta {
    let mut metadata = object.metadata.clone();
    metadata.managed_fields = None;
    metadata
}

fn pool(value: &Value) -> Option<String> {
    let reference = value.pointer("/spec/poolRef")?;
    let ours = reference["apiGroup"] == "berth.dev" && reference["kind"] == "Subnet";
    reference["name"].as_str().filter(|_| ours).map(str::to_owned)
}

impl Claim {
    pub fn of(object: &DynamicObject) -> Self {
        Self {
            metadata: metadata(object),
            pool: pool(&object.data),
            value: object.data.clone(),
        }
    }

    pub fn name(&self) -> Key {
        name(&self.metadata)
    }

    pub fn owner(&self, cluster: &str) -> Result<Owner, NotAnOwner> {
        let Key { namespace, name } = self.name();
        let uid = self.metadata.uid.as_deref().unwrap_or_default();
        Owner::namespaced(Kind::Claim, cluster, &namespace, &name, uid)
    }

    pub fn annotation(&self, name: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(name).map(|text| text.trim())
    }

    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    pub fn is_paused(&self) -> bool {
        self.annotation(PAUSED).is_some()
    }

    /// The Cluster that the claim is for, if it names one.
    pub fn cluster_name(&self) -> Option<&str> {
        let named = self.value.pointer("/spec/clusterName").and_then(Value::as_str);
        let labelled = self
            .metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(CLUSTER_LABEL));
        named.filter(|name| !name.is_empty()).or(labelled.map(String::as_str))
    }

    /// The address that the claim asks for, if any.
    pub fn asks_for(&self) -> Result<Option<IpAddr>, String> {
        let Some(text) = self.annotation(ADDRESS) else {
            return Ok(None);
        };
        let read = text.parse().map(Some);
        read.map_err(|_| format!("metadata.annotations[{ADDRESS}]: {text:?} is not an IP address"))
    }

    pub fn family(&self) -> Result<Option<Family>, String> {
        match self.annotation(FAMILY).map(str::to_lowercase).as_deref() {
            None => Ok(None),
            Some("ipv4") => Ok(Some(Family::V4)),
            Some("ipv6") => Ok(Some(Family::V6)),
            Some(text) => Err(format!(
                "metadata.annotations[{FAMILY}]: {text:?} is not a family: use ipv4 or ipv6"
            )),
        }
    }
}

impl Address {
    pub fn of(object: &DynamicObject) -> Self {
        let text = |pointer: &str| {
            object.data.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
        };
        Self {
            metadata: metadata(object),
            pool: pool(&object.data),
            ip: text("/spec/address").parse().ok(),
            claim: text("/spec/claimRef/name").to_owned(),
        }
    }

    pub fn name(&self) -> Key {
        name(&self.metadata)
    }

    /// The UID of the claim that it was made for.
    pub fn claim_uid(&self) -> Option<&str> {
        let owners = self.metadata.owner_references.iter().flatten();
        let mut claims = owners.filter(|owner| owner.kind == "IPAddressClaim");
        claims.next().map(|owner| owner.uid.as_str())
    }

    /// The owner of its lease: by the UID of its claim, or by its own if no claim is known.
    pub fn owner(&self, cluster: &str, claim: Option<&Claim>) -> Result<Owner, NotAnOwner> {
        let Key { namespace, .. } = self.name();
        let of_claim = claim.and_then(|claim| claim.metadata.uid.as_deref());
        let uid = of_claim.or(self.claim_uid()).or(self.metadata.uid.as_deref());
        Owner::namespaced(Kind::Claim, cluster, &namespace, &self.claim, uid.unwrap_or_default())
    }

    pub fn is_protected(&self) -> bool {
        self.metadata
            .finalizers
            .iter()
            .flatten()
            .any(|finalizer| finalizer == FINALIZER)
    }

    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

fn name(metadata: &ObjectMeta) -> Key {
    Key {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
    }
}
