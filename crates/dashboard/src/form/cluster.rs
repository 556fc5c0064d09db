//! The machine network of a Cluster: off, or CIDRs with their gateways and name servers.

use berth_addr::Prefix;
use berth_api::Count;
use berth_api::machines::cluster::{self, begins_with};
use berth_api::machines::flag::machines_that_fit;
use kube::ResourceExt;
use kube::core::DynamicObject;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::overlap::overlaps;
use super::{Checked, FieldError, Row, Version, conflict, merge};
use crate::index::{Index, cluster_cidrs, is_vsphere};

/// A row of the form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkFields {
    pub cidr: String,
    #[serde(default)]
    pub gateway: String,
    #[serde(default)]
    pub dns_servers: Vec<String>,
}

/// What a browser sends.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClusterForm {
    pub version: Version,
    /// Empty: the machine network is off.
    pub networks: Vec<NetworkFields>,
}

/// Which of its two forms a Cluster has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Style {
    /// `spec.machineNetwork.cidrBlocks`: one gateway and one set of name servers for all CIDRs.
    Blocks,
    /// `spec.machineNetworks`: each CIDR has its own. New networks get this form.
    List,
}

/// The initial content of the form.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterView {
    pub name: String,
    pub version: Version,
    pub is_vsphere: bool,
    pub style: Style,
    pub networks: Vec<NetworkFields>,
    /// The gateway of all CIDRs, if the Cluster has one for all.
    pub gateway: String,
    pub dns_servers: Vec<String>,
}

fn style(data: &Value) -> Style {
    let blocks = data.pointer("/spec/machineNetwork").filter(|value| !value.is_null());
    blocks.map_or(Style::List, |_| Style::Blocks)
}

fn text(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn texts(value: Option<&Value>) -> Vec<String> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.map(|item| text(Some(item))).collect()
}

pub fn view(live: &DynamicObject) -> ClusterView {
    let data = &live.data;
    let of_blocks = |name: &str| data.pointer(&format!("/spec/machineNetwork/{name}"));
    let networks = match style(data) {
        Style::Blocks => {
            let row = |cidr| NetworkFields {
                cidr,
                ..NetworkFields::default()
            };
            cluster_cidrs(data).into_iter().map(row).collect()
        }
        Style::List => items(data)
            .iter()
            .map(|item| NetworkFields {
                cidr: text(item.get("cidr")),
                gateway: text(item.get("gateway")),
                dns_servers: texts(item.get("dnsServers")),
            })
            .collect(),
    };
    ClusterView {
        name: live.name_any(),
        version: Version::of(&live.metadata),
        is_vsphere: is_vsphere(data),
        style: style(data),
        networks,
        gateway: text(of_blocks("gateway")),
        dns_servers: texts(of_blocks("dnsServers")),
    }
}

fn items(data: &Value) -> &[Value] {
    let list = data.pointer("/spec/machineNetworks").and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

/// Checks a form against the Cluster as it is now.
pub fn check(live: &DynamicObject, form: &ClusterForm, index: &Index) -> Checked {
    let name = live.name_any();
    let mut checked = Checked {
        conflict: conflict(
            &format!("the Cluster {name}"),
            Some(&live.metadata),
            Some(&form.version),
        ),
        ..Checked::default()
    };
    if !is_vsphere(&live.data) {
        let message = "is not set: machine networks are for Clusters on vSphere only";
        checked.errors.push(FieldError::new("spec.cloud.vsphere", message));
    }
    let next = next_spec(&live.data, form);
    let mut merged = live.data.clone();
    merge(&mut merged, &json!({"spec": next}));
    let networks = match cluster::check(&merged) {
        Ok(networks) => Some(networks),
        Err(errors) => {
            let errors = errors.iter().map(|error| FieldError::of(error.field(), error));
            checked.errors.extend(errors);
            None
        }
    };
    checked.errors.extend(removed_cidr_error(&live.data, form));
    checked.errors.extend(own_gateway_errors(&live.data, form));
    checked.machines = networks.map(|networks| Count(machines_that_fit(&networks)));
    let row = |fields| row(&live.data, &name, fields, index);
    checked.rows = form.networks.iter().map(row).collect();
    if merged.get("spec") != live.data.get("spec") {
        checked.show(json!({
            "apiVersion": cluster::resource().api_version,
            "kind": "Cluster",
            "metadata": {"name": name},
            "spec": next,
        }));
    }
    checked
}

/// The part of the spec that the form sets; empty if there were no networks and none are added.
fn next_spec(data: &Value, form: &ClusterForm) -> Value {
    let cidrs = form.networks.iter().map(|row| row.cidr.trim());
    match style(data) {
        Style::Blocks => json!({"machineNetwork": {"cidrBlocks": cidrs.collect::<Vec<_>>()}}),
        Style::List if form.networks.is_empty() && items(data).is_empty() => json!({}),
        Style::List => {
            let rows = form.networks.iter().enumerate();
            let list = rows.map(|(place, row)| item(items(data).get(place), row));
            json!({"machineNetworks": list.collect::<Vec<_>>()})
        }
    }
}

/// Fields that the form does not have are kept if the item still has the same CIDR.
fn item(before: Option<&Value>, row: &NetworkFields) -> Value {
    let before = before.and_then(Value::as_object);
    let same = before.filter(|before| text(before.get("cidr")) == row.cidr.trim());
    let mut item: Map<String, Value> = same.cloned().unwrap_or_default();
    item.insert("cidr".to_owned(), json!(row.cidr.trim()));
    for (name, value) in [
        ("gateway", given(&row.gateway).map(Value::String)),
        ("dnsServers", servers(row)),
    ] {
        match value {
            Some(value) => drop(item.insert(name.to_owned(), value)),
            None => drop(item.remove(name)),
        }
    }
    Value::Object(item)
}

fn given(text: &str) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

fn servers(row: &NetworkFields) -> Option<Value> {
    let servers: Vec<String> = row.dns_servers.iter().filter_map(|text| given(text)).collect();
    (!servers.is_empty()).then(|| json!(servers))
}

/// The Cluster's CIDRs must keep their places.
fn removed_cidr_error(data: &Value, form: &ClusterForm) -> Option<FieldError> {
    let next = |place: usize| form.networks.get(place)?.cidr.trim().parse().ok();
    let removed = |(place, text): (usize, &String)| {
        // No machine has an address of a CIDR that cannot be read.
        let cidr: Prefix = text.parse().ok()?;
        begins_with(&[cidr], |_| next(place)).err()
    };
    let error = cluster_cidrs(data).iter().enumerate().find_map(removed)?;
    Some(FieldError::of(error.field(), &error))
}

/// A row cannot have its own gateway if one gateway is for all CIDRs.
fn own_gateway_errors(data: &Value, form: &ClusterForm) -> Vec<FieldError> {
    let rows = form.networks.iter().enumerate();
    let has_own = |row: &NetworkFields| given(&row.gateway).is_some() || servers(row).is_some();
    let of_blocks = rows.filter(|(_, row)| style(data) == Style::Blocks && has_own(row));
    let message = "has a gateway or name servers of its own, but this Cluster has the same for all \
                   CIDRs (spec.machineNetwork): leave them empty";
    let error =
        |place| FieldError::new(format!("spec.machineNetwork.cidrBlocks[{place}]"), message);
    of_blocks.map(|(place, _)| error(place)).collect()
}

/// Checks one row alone: it may be right while others are wrong.
fn row(data: &Value, cluster: &str, fields: &NetworkFields, index: &Index) -> Row {
    let spec = match style(data) {
        Style::Blocks => {
            let mut network = data.pointer("/spec/machineNetwork").cloned().unwrap_or_default();
            merge(&mut network, &json!({"cidrBlocks": [fields.cidr.trim()]}));
            json!({"machineNetwork": network})
        }
        Style::List => json!({"machineNetworks": [item(None, fields)]}),
    };
    let networks = cluster::check(&json!({"spec": spec})).unwrap_or_default();
    let Some(network) = networks.first() else {
        return Row::default();
    };
    Row {
        machines: Some(Count(network.capacity())),
        notes: Vec::new(),
        warnings: overlaps(index, cluster, network.cidr, &network.subnet_name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(spec: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "kubermatic.k8s.io/v1", "kind": "Cluster",
            "metadata": {"name": "blue", "uid": "u", "generation": 3}, "spec": spec,
        }))
        .unwrap()
    }

    fn form(rows: &[(&str, &str, &[&str])]) -> ClusterForm {
        let row = |(cidr, gateway, dns): &(&str, &str, &[&str])| NetworkFields {
            cidr: (*cidr).to_owned(),
            gateway: (*gateway).to_owned(),
            dns_servers: dns.iter().map(|dns| (*dns).to_owned()).collect(),
        };
        ClusterForm {
            version: Version {
                uid: "u".to_owned(),
                generation: 3,
            },
            networks: rows.iter().map(row).collect(),
        }
    }

    fn fields(checked: &Checked) -> Vec<&str> {
        checked.errors.iter().map(|error| error.field.as_str()).collect()
    }

    #[test]
    fn a_network_is_off_until_somebody_makes_one() {
        let live = cluster(json!({"cloud": {"vsphere": {}}}));
        assert!(view(&live).networks.is_empty());
        let checked = check(&live, &form(&[]), &Index::default());
        assert_eq!((checked.has_changes, checked.yaml.as_str()), (false, ""));
        let rows: [(&str, &str, &[&str]); 2] = [
            ("192.168.1.128/25", "192.168.1.1", &["192.168.1.1"]),
            (" fd00::/64 ", "", &[" "]),
        ];
        let checked = check(&live, &form(&rows), &Index::default());
        assert!(checked.may_be_written(), "{:?}", checked.errors);
        assert_eq!(checked.machines, Some(Count(126)));
        assert_eq!(checked.rows[0].machines, Some(Count(126)));
        let expected = json!({"machineNetworks": [
            {"cidr": "192.168.1.128/25", "gateway": "192.168.1.1", "dnsServers": ["192.168.1.1"]},
            {"cidr": "fd00::/64"},
        ]});
        assert_eq!(checked.document["spec"], expected);
        let read: Value = serde_saphyr::from_str(&checked.yaml).unwrap();
        assert_eq!(read, checked.document);
    }

    #[test]
    fn form_errors_name_their_row_and_valid_rows_are_counted() {
        let live = cluster(json!({"cloud": {"vsphere": {}}}));
        let rows: [(&str, &str, &[&str]); 3] = [
            ("10.0.0.0/24", "", &[]),
            ("10.0.1.1/24", "x", &[]),
            ("10.0.2.0/24", "", &["10.0.2.1", "fd00::1"]),
        ];
        let checked = check(&live, &form(&rows), &Index::default());
        assert_eq!(
            fields(&checked),
            [
                "spec.machineNetworks[1].cidr",
                "spec.machineNetworks[1].gateway",
                "spec.machineNetworks[2].dnsServers[1]",
            ]
        );
        assert_eq!(checked.errors[2].row, Some(2));
        assert_eq!((checked.machines, checked.rows[0].machines), (None, Some(Count(254))));
        assert!(!checked.may_be_written());
    }

    #[test]
    fn cidrs_can_be_appended_in_either_form_and_nothing_else() {
        let blocks = json!({"cidrBlocks": ["10.0.0.0/24", "10.0.1.0/24"], "gateway": "10.0.0.1"});
        let list = json!([{"cidr": "10.0.0.0/24", "note": "kept"}, {"cidr": "10.0.1.0/24"}]);
        for (name, networks) in [("machineNetwork", blocks), ("machineNetworks", list)] {
            let live = cluster(json!({"cloud": {"vsphere": {}}, name: networks}));
            let with = |cidrs: &[&str]| {
                let rows: Vec<(&str, &str, &[&str])> =
                    cidrs.iter().map(|cidr| (*cidr, "", &[][..])).collect();
                check(&live, &form(&rows), &Index::default())
            };
            let added = with(&["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24"]);
            assert!(added.may_be_written(), "{name}: {:?}", added.errors);
            assert!(!with(&["10.0.0.0/24", "10.0.1.0/24"]).has_changes, "{name}");
            for cidrs in [
                &["10.0.0.0/24"][..],
                &["10.0.1.0/24", "10.0.0.0/24"],
                &["10.0.0.0/24", "10.0.1.0/25"],
                &["10.0.0.0/24", "x"],
                &[],
            ] {
                let refused = with(cidrs);
                let told = refused.errors.iter().any(|error| {
                    error.field == "spec.machineNetwork"
                        && error.message.contains("machines may have addresses of it")
                });
                assert!(told, "{name} {cidrs:?}: {:?}", refused.errors);
            }
        }
        // Fields that others have put into an item stay.
        let live = cluster(json!({"cloud": {"vsphere": {}}, "machineNetworks": [
            {"cidr": "10.0.0.0/24", "note": "kept"},
        ]}));
        let rows: [(&str, &str, &[&str]); 1] = [("10.0.0.0/24", "10.0.0.1", &[])];
        let checked = check(&live, &form(&rows), &Index::default());
        let expected = json!([{"cidr": "10.0.0.0/24", "gateway": "10.0.0.1", "note": "kept"}]);
        assert_eq!(checked.document["spec"]["machineNetworks"], expected);
    }

    #[test]
    fn a_gateway_of_one_cidr_is_refused_where_all_share_one() {
        let live = cluster(json!({
            "cloud": {"vsphere": {}}, "machineNetwork": {"cidrBlocks": ["10.0.0.0/24"]},
        }));
        let rows: [(&str, &str, &[&str]); 2] =
            [("10.0.0.0/24", "", &[]), ("10.0.1.0/24", "10.0.1.1", &[])];
        let checked = check(&live, &form(&rows), &Index::default());
        assert_eq!(fields(&checked), ["spec.machineNetwork.cidrBlocks[1]"]);
    }

    #[test]
    fn other_clouds_and_other_states_are_refused() {
        let rows: [(&str, &str, &[&str]); 1] = [("10.0.0.0/24", "", &[])];
        let checked = check(&cluster(json!({})), &form(&rows), &Index::default());
        assert_eq!(fields(&checked), ["spec.cloud.vsphere"]);
        let mut old = form(&rows);
        old.version.generation = 2;
        let live = cluster(json!({"cloud": {"vsphere": {}}}));
        let checked = check(&live, &old, &Index::default());
        assert!(checked.conflict.is_some() && !checked.may_be_written());
    }

    #[test]
    fn overlaps_are_warnings_that_do_not_block_the_form() {
        let mut index = Index::default();
        let mut subnet = |name: &str, usage: &str, cidr: &str| {
            let subnet = serde_json::from_value(json!({
                "apiVersion": "berth.dev/v1alpha1", "kind": "Subnet",
                "metadata": {"name": name}, "spec": {"use": usage, "cidrs": [cidr]},
            }));
            index.apply_subnet(&subnet.unwrap());
        };
        subnet("pods", "pods", "10.0.0.0/16");
        subnet("machines-10.0.0.0-24", "machines", "10.0.0.0/24");
        let mut green = cluster(json!({"machineNetworks": [{"cidr": "10.0.0.128/25"}]}));
        green.metadata.name = Some("green".to_owned());
        let live = cluster(json!({
            "cloud": {"vsphere": {}}, "machineNetworks": [{"cidr": "10.0.0.0/24"}],
        }));
        index.apply_cluster(&green);
        index.apply_cluster(&live);
        let rows: [(&str, &str, &[&str]); 2] = [("10.0.0.0/24", "", &[]), ("10.9.0.0/24", "", &[])];
        let checked = check(&live, &form(&rows), &index);
        let told = &checked.rows[0].warnings;
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("10.0.0.0/16 of the Subnet pods"), "{told:?}");
        assert!(told[1].contains("10.0.0.128/25 of the Cluster green"), "{told:?}");
        assert_eq!(checked.rows[1].warnings, [""; 0]);
        assert!(checked.may_be_written());
    }
}
