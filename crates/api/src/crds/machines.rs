//! The CRDs of Machine, in both shapes, and of Cluster, for clusters that have none. A
//! machine-controller brings its own CRDs: do not apply these beside it.
//!
//! They declare what Berth reads and writes; other fields of a Machine belong to its provider and
//! are kept.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

/// Groups that end in `k8s.io` belong to the Kubernetes project: a CRD in one must have this
/// annotation.
const APPROVAL: (&str, &str) = (
    "api-approved.kubernetes.io",
    "unapproved, of a machine-controller or of Kubermatic",
);

const MAX_CIDRS: usize = 16;

pub fn all() -> Result<Vec<CustomResourceDefinition>, serde_json::Error> {
    [machine_k8s_io(), cluster_k8s_io(), kubermatic()]
        .into_iter()
        .map(serde_json::from_value)
        .collect()
}

fn crd(
    group: &str,
    version: &str,
    names: &Value,
    scope: &str,
    columns: &Value,
    schema: &Value,
) -> Value {
    let (name, value) = APPROVAL;
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{}.{group}", names["plural"].as_str().unwrap_or_default()),
            "annotations": {name: value},
        },
        "spec": {
            "group": group,
            "names": names,
            "scope": scope,
            "versions": [{
                "name": version,
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "additionalPrinterColumns": columns,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

fn machine_names() -> Value {
    json!({"kind": "Machine", "listKind": "MachineList", "plural": "machines", "singular": "machine", "shortNames": ["ma"]})
}

/// The Machine of `machine.k8s.io`: its network is in `spec.providerConfig`.
fn machine_k8s_io() -> Value {
    let spec = json!({"providerConfig": provider()});
    let schema = machine(&spec);
    let columns = columns(".spec.providerConfig.network");
    crd(
        "machine.k8s.io",
        "v1alpha1",
        &machine_names(),
        "Cluster",
        &columns,
        &schema,
    )
}

/// machine-controller's Machine: its network is in `spec.providerSpec.value`.
fn cluster_k8s_io() -> Value {
    let spec = json!({"providerSpec": open(json!({"value": provider()}))});
    let schema = machine(&spec);
    let columns = columns(".spec.providerSpec.value.network");
    crd(
        "cluster.k8s.io",
        "v1alpha1",
        &machine_names(),
        "Namespaced",
        &columns,
        &schema,
    )
}

fn columns(network: &str) -> Value {
    let of_condition =
        |field: &str| format!(r#".status.conditions[?(@.type=="NetworkAllocated")].{field}"#);
    let address = if network.starts_with(".spec.providerConfig") {
        "ip"
    } else {
        "cidr"
    };
    json!([
        {"name": "Address", "type": "string", "jsonPath": format!("{network}.{address}")},
        {"name": "Network", "type": "string", "jsonPath": of_condition("reason")},
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Waits-For", "type": "string", "priority": 1,
         "jsonPath": r".metadata.annotations.machine-controller\.kubermatic\.io/initializers"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ])
}

fn machine(provider: &Value) -> Value {
    let mut spec = provider.clone();
    spec["metadata"] = open(json!({}));
    let condition = open(json!({
        "type": {"type": "string"},
        "status": {"type": "string"},
        "reason": {"type": "string"},
        "message": {"type": "string"},
        "lastTransitionTime": {"type": "string", "format": "date-time"},
    }));
    let status = json!({
        "phase": {"type": "string"},
        "conditions": {"type": "array", "items": condition},
    });
    json!({
        "type": "object",
        "properties": {"spec": open(spec), "status": open(status)},
    })
}

fn provider() -> Value {
    let text = json!({"type": "string"});
    let address = json!({"type": "object", "properties": {"cidr": text, "ip": text, "netmask": text, "gateway": text}});
    let texts = json!({"type": "array", "items": text});
    let network = json!({
        "ip": text,
        "netmask": text,
        "cidr": text,
        "gateway": text,
        "dns": open(json!({"servers": texts, "search": texts})),
        "addresses": {"type": "array", "items": address},
        "interface": text,
        "macAddress": text,
    });
    open(json!({"network": open(network)}))
}

/// An object that may have other fields, too.
fn open(properties: Value) -> Value {
    let mut schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    if properties.as_object().is_some_and(|all| !all.is_empty()) {
        schema["properties"] = properties;
    }
    schema
}

/// A rule that a list still begins with its old items. Its CEL works on API servers from 1.32 on,
/// which can estimate its cost.
fn appended(list: &str, old: &str, field: &str) -> String {
    let places: Vec<usize> = (0..MAX_CIDRS).collect();
    format!(
        "{places:?}.all(i, i >= size({old}) || (i < size({list}) && {list}[i]{field} == \
         {old}[i]{field}))"
    )
}

/// The Cluster of Kubermatic. CIDRs may only be appended: an address of a removed or changed CIDR
/// may be in use, and CIDRs are tried in order.
fn kubermatic() -> Value {
    let text = json!({"type": "string", "maxLength": 43});
    let texts = json!({"type": "array", "maxItems": MAX_CIDRS, "items": text});
    let network = json!({
        "type": "object",
        "required": ["cidrBlocks"],
        "properties": {"cidrBlocks": texts, "gateway": text, "dnsServers": texts},
        "x-kubernetes-validations": [
            {
                "rule": "self.cidrBlocks.all(c, isCIDR(c) && cidr(c) == cidr(c).masked())",
                "message": "has a CIDR that can not be read or has host bits set: write it like \
                            192.168.1.128/25",
                "fieldPath": ".cidrBlocks",
            },
            {
                "rule": appended("self.cidrBlocks", "oldSelf.cidrBlocks", ""),
                "message": "CIDRs may be appended, but not removed, changed or reordered",
                "fieldPath": ".cidrBlocks",
            },
        ],
    });
    let one = json!({
        "type": "object",
        "required": ["cidr"],
        "properties": {"cidr": text, "gateway": text, "dnsServers": texts},
        "x-kubernetes-validations": [{
            "rule": "isCIDR(self.cidr) && cidr(self.cidr) == cidr(self.cidr).masked()",
            "message": "is not a CIDR, or has host bits set: write it like 192.168.1.128/25",
            "fieldPath": ".cidr",
        }],
    });
    let networks = json!({
        "type": "array",
        "maxItems": MAX_CIDRS,
        "items": one,
        "x-kubernetes-validations": [{
            "rule": appended("self", "oldSelf", ".cidr"),
            "message": "CIDRs may be appended, but not removed, changed or reordered",
        }],
    });
    let mut spec = open(json!({
        "machineNetwork": network,
        "machineNetworks": networks,
        "cloud": open(json!({"vsphere": open(json!({}))})),
    }));
    spec["x-kubernetes-validations"] = json!([
        {
            "rule": "!has(oldSelf.machineNetwork) || has(self.machineNetwork)",
            "message": "machineNetwork can not be dropped: machines have addresses of it",
        },
        {
            "rule": "!has(oldSelf.machineNetworks) || has(self.machineNetworks)",
            "message": "machineNetworks can not be dropped: machines have addresses of them",
        },
        {
            "rule": "!(has(self.machineNetwork) && has(self.machineNetworks))",
            "message": "machineNetwork and machineNetworks are both set: use one of the two",
        },
    ]);
    let schema = json!({
        "type": "object",
        "properties": {"spec": spec, "status": open(json!({}))},
    });
    let columns = json!([
        {"name": "CIDRs", "type": "string", "jsonPath": ".spec.machineNetwork.cidrBlocks"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    let names = json!({"kind": "Cluster", "listKind": "ClusterList", "plural": "clusters", "singular": "cluster"});
    crd("kubermatic.k8s.io", "v1", &names, "Cluster", &columns, &schema)
}
