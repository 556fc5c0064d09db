//! The network of one Machine: given by machine IPAM, or set by hand. A new Machine is created with
//! it.

use std::net::IpAddr;

use berth_addr::Prefix;
use berth_api::machines::network::{Network, NetworkError};
use berth_api::machines::{BYPASS, INITIALIZERS, Shape};
use berth_api::subnet::Use;
use berth_kit::watch::Key;
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Checked, FieldError, Row, Version, conflict};
use crate::index::Index;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddressFields {
    /// With its prefix length, such as `192.168.1.129/25`.
    pub cidr: String,
    #[serde(default)]
    pub gateway: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineNetwork {
    pub addresses: Vec<AddressFields>,
    #[serde(default)]
    pub dns_servers: Vec<String>,
}

/// What a browser sends.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineForm {
    pub group: String,
    #[serde(default)]
    pub namespace: String,
    pub name: String,
    /// The version of an existing Machine; `None` for a new one.
    #[serde(default)]
    pub version: Option<Version>,
    /// For a new Machine.
    #[serde(default)]
    pub operating_system: String,
    /// `None`: machine IPAM gives one.
    #[serde(default)]
    pub network: Option<MachineNetwork>,
}

impl MachineForm {
    pub fn shape(&self) -> Result<Shape, FieldError> {
        shape(&self.group)
    }
}

/// The shape of a Machine, by the group of its kind.
pub fn shape(group: &str) -> Result<Shape, FieldError> {
    let found = Shape::ALL.into_iter().find(|shape| shape.group() == group);
    found.ok_or_else(|| {
        let message = format!("{group:?} has no Machines: use machine.k8s.io or cluster.k8s.io");
        FieldError::new("group", message)
    })
}

/// The initial content of the form.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineView {
    pub group: &'static str,
    pub namespace: String,
    pub name: String,
    pub version: Version,
    /// Whether an initializer still keeps it from being built.
    pub is_gated: bool,
    pub network: Option<MachineNetwork>,
    /// Why the existing network cannot be read.
    pub error: Option<String>,
}

pub fn view(shape: Shape, live: &DynamicObject) -> MachineView {
    let network = read(shape, live);
    let fields = |network: &Network| MachineNetwork {
        addresses: network
            .addresses
            .iter()
            .map(|address| AddressFields {
                cidr: address.to_string(),
                gateway: address.gateway.map(|one| one.to_string()).unwrap_or_default(),
            })
            .collect(),
        dns_servers: network.dns.iter().map(ToString::to_string).collect(),
    };
    MachineView {
        group: shape.group(),
        namespace: live.namespace().unwrap_or_default(),
        name: live.name_any(),
        version: Version::of(&live.metadata),
        is_gated: is_gated(live),
        error: network.as_ref().err().map(ToString::to_string),
        network: network.ok().flatten().as_ref().map(fields),
    }
}

fn read(shape: Shape, live: &DynamicObject) -> Result<Option<Network>, NetworkError> {
    Network::read(shape.network(&live.data), shape.network_field())
}

fn is_gated(live: &DynamicObject) -> bool {
    let list = live.annotations().get(INITIALIZERS);
    list.is_some_and(|list| list.split(',').any(|name| !name.trim().is_empty()))
}

/// Checks a form against the Machine as it is now, or against none.
pub fn check(
    shape: Shape,
    live: Option<&DynamicObject>,
    form: &MachineForm,
    index: &Index,
) -> Checked {
    let what = format!("Machine {}", form.name.trim());
    let metadata = live.map(|live| &live.metadata);
    let mut checked = Checked {
        conflict: conflict(&what, metadata, form.version.as_ref()),
        errors: name_errors(shape, form),
        ..Checked::default()
    };
    let network = match form.network.as_ref().map(|fields| requested_network(shape, fields)) {
        None => None,
        Some(Ok(network)) => Some(network),
        Some(Err(error)) => {
            checked.errors.push(error);
            None
        }
    };
    let key = Key {
        namespace: form.namespace.trim().to_owned(),
        name: form.name.trim().to_owned(),
    };
    for (place, fields) in form.network.iter().flat_map(|one| &one.addresses).enumerate() {
        let (row, error) = row(shape, place, fields, &key, index);
        checked.rows.push(row);
        checked.errors.extend(error);
    }
    match live {
        None => {
            let mut provider = json!({});
            if !form.operating_system.trim().is_empty() {
                provider["operatingSystem"] = json!(form.operating_system.trim());
            }
            if let Some(network) = &network {
                provider["network"] = network.to_value(shape);
            }
            checked.show(document(shape, &key, json!({}), &shape.spec_of(&provider)));
        }
        Some(live) => {
            // Compares only what the form has: addresses and DNS.
            let compared = |network: &Network| (network.addresses.clone(), network.dns.clone());
            let unchanged = read(shape, live).is_ok_and(|before| {
                before.as_ref().map(compared) == network.as_ref().map(compared)
            });
            let is_same = unchanged && checked.errors.is_empty();
            checked
                .errors
                .extend(fixed_network_error(shape, live).filter(|_| !is_same));
            if let Some(network) = network.filter(|_| !is_same) {
                let annotations = json!({"annotations": {BYPASS: "true"}});
                let spec = shape.spec_with(&network.to_value(shape));
                checked.show(document(shape, &key, annotations, &spec));
            }
        }
    }
    checked
}

fn document(shape: Shape, key: &Key, mut metadata: Value, spec: &Value) -> Value {
    metadata["name"] = json!(key.name);
    if !key.namespace.is_empty() {
        metadata["namespace"] = json!(key.namespace);
    }
    json!({
        "apiVersion": shape.resource().api_version,
        "kind": "Machine",
        "metadata": metadata,
        "spec": spec,
    })
}

fn name_errors(shape: Shape, form: &MachineForm) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if form.name.trim().is_empty() {
        errors.push(FieldError::new("metadata.name", "is missing: write it like machine1"));
    }
    if shape == Shape::ProviderSpec && form.namespace.trim().is_empty() {
        let message = "is missing: write it like default";
        errors.push(FieldError::new("metadata.namespace", message));
    }
    errors
}

/// The network in the form, checked by the rules for Machines.
fn requested_network(shape: Shape, fields: &MachineNetwork) -> Result<Network, FieldError> {
    let trimmed = |text: &String| text.trim().to_owned();
    let address =
        |one: &AddressFields| json!({"cidr": one.cidr.trim(), "gateway": one.gateway.trim()});
    let servers = fields.dns_servers.iter().map(trimmed);
    let servers: Vec<String> = servers.filter(|text| !text.is_empty()).collect();
    let value = json!({
        "addresses": fields.addresses.iter().map(address).collect::<Vec<_>>(),
        "dns": {"servers": servers},
    });
    let network = Network::read(&value, shape.network_field());
    let network = network.map_err(|error| FieldError::new(error.field, error.message))?;
    network.ok_or_else(|| {
        let message = "is on, and has no address: give one, or leave it to machine IPAM";
        FieldError::new(shape.network_field(), message)
    })
}

/// Why the network of this Machine cannot be changed; `None` if it can.
fn fixed_network_error(shape: Shape, live: &DynamicObject) -> Option<FieldError> {
    let message = if live.metadata.deletion_timestamp.is_some() {
        "can't be set any more: the Machine is being deleted".to_owned()
    } else {
        match read(shape, live) {
            Ok(Some(network)) => {
                let addresses = network.addresses.iter().map(ToString::to_string);
                format!(
                    "is {} and stays so: the machine may be built with it. Delete the Machine and \
                     recreate it",
                    addresses.collect::<Vec<_>>().join(", ")
                )
            }
            _ if is_gated(live) => return None,
            _ => format!(
                "can't be set any more: {INITIALIZERS} is empty, so the machine may be built \
                 already. Delete the Machine and recreate it"
            ),
        }
    };
    Some(FieldError::new(shape.network_field(), message))
}

/// Notes and warnings about one address, and an error if somebody else has it.
fn row(
    shape: Shape,
    place: usize,
    fields: &AddressFields,
    own: &Key,
    index: &Index,
) -> (Row, Option<FieldError>) {
    let mut row = Row::default();
    let address = fields.cidr.split('/').next().unwrap_or_default().trim();
    let Ok(address) = address.parse::<IpAddr>() else {
        return (row, None);
    };
    let mut is_inside = false;
    for (name, subnet) in &index.facts.subnets {
        let cidrs = subnet.spec.cidrs.iter().filter_map(|text| text.parse::<Prefix>().ok());
        let Some(cidr) = cidrs.into_iter().find(|cidr| cidr.contains(address)) else {
            continue;
        };
        if subnet.spec.usage != Use::Machines {
            let warning = format!("{address} is in {cidr} of the Subnet {name}, not for machines.");
            row.warnings.push(warning);
            continue;
        }
        is_inside = true;
        let status = subnet.status.clone().unwrap_or_default();
        row.notes.push(match (status.free, status.capacity) {
            (Some(free), Some(capacity)) => {
                format!("{address} is in the Subnet {name}: {free} of {capacity} are free.")
            }
            _ => format!("{address} is in the Subnet {name}."),
        });
        let text = address.to_string();
        if subnet.spec.gateways.contains(&text) || subnet.spec.dns.contains(&text) {
            let warning = format!("{address} is a gateway or a name server of the Subnet {name}.");
            row.warnings.push(warning);
        }
    }
    if !is_inside {
        row.warnings.push(format!(
            "{address} is in no Subnet for machines: it is used as it is, and nobody keeps it from \
             others."
        ));
    }
    let error = owner(index, address, own).map(|owner| {
        let field = format!("{}.addresses[{place}].cidr", shape.network_field());
        FieldError::new(field, format!("{address} has an owner already: {owner}"))
    });
    (row, error)
}

fn owner(index: &Index, address: IpAddr, own: &Key) -> Option<String> {
    let single = Prefix::from(address);
    let named = |key: &Key| match key.namespace.as_str() {
        "" => key.name.clone(),
        namespace => format!("{namespace}/{}", key.name),
    };
    let mut machines = index.addresses.machines_in(single).map(|(_, key)| key);
    if let Some(key) = machines.find(|key| *key != own) {
        return Some(format!("the Machine {}", named(key)));
    }
    if let Some((_, key)) = index.addresses.pods_in(single).next() {
        return Some(format!("the pod {}", named(key)));
    }
    let node = index.addresses.listed_in(single, single.length()).next();
    node.map(|(_, _, node)| format!("the node {node}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape::ProviderSpec;

    fn machine(annotations: Value, provider: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "cluster.k8s.io/v1alpha1", "kind": "Machine",
            "metadata": {
                "name": "m1", "namespace": "default", "uid": "u", "generation": 1,
                "annotations": annotations,
            },
            "spec": {"providerSpec": {"value": provider}},
        }))
        .unwrap()
    }

    fn form(is_new: bool, network: Value) -> MachineForm {
        let version = json!({"uid": "u", "generation": 1});
        serde_json::from_value(json!({
            "group": "cluster.k8s.io", "namespace": "default", "name": "m1",
            "version": if is_new { Value::Null } else { version }, "network": network,
        }))
        .unwrap()
    }

    fn by_hand(cidr: &str) -> Value {
        json!({"addresses": [{"cidr": cidr, "gateway": "10.0.0.1"}], "dnsServers": ["10.0.0.53", ""]})
    }

    #[test]
    fn a_new_machine_has_a_network_only_where_somebody_gives_it_one() {
        let index = Index::default();
        let checked = check(SHAPE, None, &form(true, Value::Null), &index);
        assert!(checked.may_be_written(), "{:?}", checked.errors);
        assert_eq!(checked.document["spec"], json!({"providerSpec": {"value": {}}}));
        let checked = check(SHAPE, None, &form(true, by_hand("10.0.0.5/24")), &index);
        assert!(checked.may_be_written(), "{:?}", checked.errors);
        assert_eq!(
            checked.document["spec"]["providerSpec"]["value"]["network"],
            json!({"cidr": "10.0.0.5/24", "gateway": "10.0.0.1", "dns": {"servers": ["10.0.0.53"]}})
        );
        assert!(checked.rows[0].warnings[0].contains("in no Subnet for machines"));
    }

    #[test]
    fn the_rules_are_those_of_machines() {
        let index = Index::default();
        for (network, field) in [
            (by_hand("10.0.0.0/24"), "addresses[0].cidr"),
            (by_hand("10.0.0.5"), "addresses[0].cidr"),
            (
                json!({"addresses": [{"cidr": "10.0.0.5/24", "gateway": "x"}]}),
                "addresses[0].gateway",
            ),
            (
                json!({"addresses": [{"cidr": "10.0.0.5/24"}], "dnsServers": ["y"]}),
                "dns.servers[0]",
            ),
        ] {
            let checked = check(SHAPE, None, &form(true, network), &index);
            let expected = format!("spec.providerSpec.value.network.{field}");
            assert_eq!(checked.errors[0].field, expected, "{:?}", checked.errors);
        }
        let nothing = check(SHAPE, None, &form(true, json!({"addresses": []})), &index);
        assert!(
            nothing.errors[0].message.contains("has no address"),
            "{:?}",
            nothing.errors
        );
        let mut unnamed = form(true, Value::Null);
        (unnamed.name, unnamed.namespace) = (String::new(), String::new());
        let checked = check(SHAPE, None, &unnamed, &index);
        assert_eq!(checked.errors.len(), 2);
    }

    #[test]
    fn a_machine_that_waits_is_given_one_and_no_other() {
        let index = Index::default();
        let gated = machine(json!({INITIALIZERS: "ipam.berth.dev"}), json!({}));
        let checked = check(SHAPE, Some(&gated), &form(false, by_hand("10.0.0.5/24")), &index);
        assert!(checked.may_be_written(), "{:?}", checked.errors);
        assert_eq!(checked.document["metadata"]["annotations"][BYPASS], "true");
        let untouched = check(SHAPE, Some(&gated), &form(false, Value::Null), &index);
        assert!(untouched.errors.is_empty() && !untouched.has_changes);

        let open = machine(json!({INITIALIZERS: ""}), json!({}));
        let checked = check(SHAPE, Some(&open), &form(false, by_hand("10.0.0.5/24")), &index);
        assert!(checked.errors[0].message.contains("may be built already"));
        let network = json!({"cidr": "10.0.0.7/24"});
        let set = machine(json!({INITIALIZERS: "x"}), json!({"network": network}));
        for network in [by_hand("10.0.0.5/24"), Value::Null] {
            let checked = check(SHAPE, Some(&set), &form(false, network), &index);
            assert!(checked.errors[0].message.contains("is 10.0.0.7/24 and stays so"));
        }
        let same = json!({"addresses": [{"cidr": "10.0.0.7/24"}]});
        let checked = check(SHAPE, Some(&set), &form(false, same), &index);
        assert!(
            checked.errors.is_empty() && !checked.has_changes,
            "{:?}",
            checked.errors
        );
    }

    #[test]
    fn an_address_that_another_machine_has_is_refused() {
        let mut index = Index::default();
        let mut other = machine(json!({}), json!({"network": {"cidr": "10.0.0.5/24"}}));
        other.metadata.name = Some("m2".to_owned());
        index.apply_machine("cluster.k8s.io", &other);
        let checked = check(SHAPE, None, &form(true, by_hand("10.0.0.5/24")), &index);
        let error = &checked.errors[0];
        assert_eq!(error.field, "spec.providerSpec.value.network.addresses[0].cidr");
        assert!(error.message.contains("the Machine default/m2"), "{error:?}");
    }
}
