//! The CRDs as documents.

use berth_api::{ClusterSubnetState, NodeNetworkConfig, Subnet, crds, names};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource;
use serde_json::Value;

/// Name and priority of each column.
fn columns(kind: &str) -> Vec<(String, i32)> {
    let crds = crds::all();
    let crd = crds.iter().find(|crd| crd.spec.names.kind == kind).unwrap();
    let columns = crd.spec.versions[0].additional_printer_columns.as_ref().unwrap();
    columns
        .iter()
        .map(|column| (column.name.clone(), column.priority.unwrap_or(0)))
        .collect()
}

fn named(columns: &[(&str, i32)]) -> Vec<(String, i32)> {
    columns
        .iter()
        .map(|(name, priority)| ((*name).to_owned(), *priority))
        .collect()
}

#[test]
fn each_crd_has_a_file_named_after_its_group_and_plural() {
    let names: Vec<String> = crds::files().unwrap().into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        [
            "acn.azure.com_nodenetworkconfigs.yaml",
            "acn.azure.com_clustersubnetstates.yaml",
            "berth.dev_subnets.yaml",
            "berth.dev_addressblocks.yaml",
        ]
    );
}

#[test]
fn the_stream_of_documents_reads_back_as_the_same_crds() {
    let read: Vec<CustomResourceDefinition> =
        serde_saphyr::from_multiple(&crds::yaml().unwrap()).unwrap();
    assert_eq!(read, crds::all());
}

#[test]
fn names_scopes_and_versions_are_those_of_the_specification() {
    let facts: Vec<String> = crds::all()
        .iter()
        .map(|crd| {
            let names = &crd.spec.names;
            let version = &crd.spec.versions[0];
            let status = version.subresources.as_ref().is_some_and(|all| all.status.is_some());
            let short = names.short_names.clone().unwrap_or_default().join(",");
            format!(
                "{}/{} {} [{short}] {} status={status}",
                crd.spec.group, version.name, names.plural, crd.spec.scope
            )
        })
        .collect();
    assert_eq!(
        facts,
        [
            "acn.azure.com/v1alpha nodenetworkconfigs [nnc] Namespaced status=true",
            "acn.azure.com/v1alpha1 clustersubnetstates [] Namespaced status=true",
            "berth.dev/v1alpha1 subnets [subnet] Cluster status=true",
            "berth.dev/v1alpha1 addressblocks [] Cluster status=false",
        ]
    );
}

#[test]
fn the_names_for_other_crates_are_those_of_the_crds() {
    assert_eq!(
        NodeNetworkConfig::api_version(&()),
        format!("{}/{}", names::ACN_GROUP, names::NNC_VERSION)
    );
    assert_eq!(
        ClusterSubnetState::api_version(&()),
        format!("{}/{}", names::ACN_GROUP, names::SUBNET_STATE_VERSION)
    );
    assert_eq!(
        Subnet::api_version(&()),
        format!("{}/{}", names::BERTH_GROUP, names::BERTH_VERSION)
    );
}

#[test]
fn columns_are_in_order_and_the_wide_ones_are_wide() {
    let nnc = [
        ("Requested IPs", 1),
        ("Availability Zone", 1),
        ("Allocated IPs", 0),
        ("Subnet", 1),
        ("Subnet CIDR", 1),
        ("Subnet CIDR v6", 1),
        ("NC ID", 1),
        ("NC Mode", 0),
        ("NC Type", 1),
        ("NC Version", 0),
    ];
    assert_eq!(columns("NodeNetworkConfig"), named(&nnc));
    assert_eq!(
        columns("ClusterSubnetState"),
        named(&[("Exhausted", 0), ("Updated", 0)])
    );
    let subnet = [
        ("Use", 0),
        ("CIDRs", 0),
        ("Capacity", 0),
        ("Reserved", 0),
        ("Free", 0),
        ("Ready", 0),
        ("Age", 0),
    ];
    assert_eq!(columns("Subnet"), named(&subnet));
}

#[test]
fn schemas_use_no_nullable_and_only_kubernetes_formats() {
    fn visit(value: &Value, path: &str) {
        match value {
            Value::Object(fields) => {
                assert!(!fields.contains_key("nullable"), "{path}");
                let format = fields.get("format").and_then(Value::as_str);
                assert!(
                    format.is_none_or(|format| ["int32", "int64", "date-time"].contains(&format)),
                    "{path}: {format:?}"
                );
                fields
                    .iter()
                    .for_each(|(name, value)| visit(value, &format!("{path}.{name}")));
            }
            Value::Array(items) => {
                assert!(!items.contains(&Value::Null), "{path}");
                items.iter().for_each(|value| visit(value, path));
            }
            _ => {}
        }
    }
    for crd in crds::all() {
        visit(
            &serde_json::to_value(&crd.spec.versions[0].schema).unwrap(),
            &crd.spec.names.kind,
        );
    }
}

#[test]
fn only_what_must_be_there_is_required() {
    let required = |index: usize| {
        let crd = &crds::all()[index];
        let schema =
            serde_json::to_value(&crd.spec.versions[0].schema).unwrap()["openAPIV3Schema"].clone();
        let of = |part: &str| schema["properties"][part]["required"].clone();
        (schema["required"].clone(), of("spec"), of("status"))
    };
    assert_eq!(required(0), (Value::Null, Value::Null, Value::Null));
    assert_eq!(
        required(1),
        (Value::Null, Value::Null, serde_json::json!(["exhausted", "timestamp"]))
    );
    assert_eq!(
        required(2),
        (serde_json::json!(["spec"]), serde_json::json!(["cidrs"]), Value::Null)
    );
}
