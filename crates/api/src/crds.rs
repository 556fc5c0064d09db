//! The CRDs as documents: `cargo xtask codegen` writes them to `deploy/crds`, and `berth crds`
//! prints them.

pub mod machines;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSON, JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;
use serde_json::{Value, json};

use crate::names::BERTH_VERSION;
use crate::subnet::MAX_NAME_LENGTH;
use crate::{AddressBlock, ClusterSubnetState, NodeNetworkConfig, Subnet};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("writing the CRD {name} as JSON: {source}")]
    Json { name: String, source: serde_json::Error },
    #[error("writing the CRD {name} as YAML: {source}")]
    Yaml {
        name: String,
        source: serde_saphyr::ser::Error,
    },
}

/// In the order in which they are printed and applied.
pub fn all() -> Vec<CustomResourceDefinition> {
    vec![
        tidy(optional_spec(NodeNetworkConfig::crd())),
        tidy(ClusterSubnetState::crd()),
        contract(tidy(bounded_name(Subnet::crd()))),
        tidy(AddressBlock::crd()),
    ]
}

/// Each file: its name, such as `acn.azure.com_nodenetworkconfigs.yaml`, and its content.
pub fn files() -> Result<Vec<(String, String)>, Error> {
    all()
        .iter()
        .map(|crd| {
            Ok((
                format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural),
                document(crd)?,
            ))
        })
        .collect()
}

/// All CRDs in one stream, for `kubectl apply -f -`.
pub fn yaml() -> Result<String, Error> {
    let documents = all().iter().map(document).collect::<Result<Vec<_>, _>>()?;
    Ok(documents.join("---\n"))
}

/// The CRDs of Machine and Cluster in one stream: see [`machines`].
pub fn machines_yaml() -> Result<String, Error> {
    let documents = machine_files()?.into_iter().map(|(_, document)| document);
    Ok(documents.collect::<Vec<_>>().join("---\n"))
}

/// As [`files`], of Machine and Cluster.
pub fn machine_files() -> Result<Vec<(String, String)>, Error> {
    let name = "machines".to_owned();
    let all = machines::all().map_err(|source| Error::Json { name, source })?;
    let file = |crd: &CustomResourceDefinition| {
        let name = format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural);
        Ok((name, document(crd)?))
    };
    all.iter().map(file).collect()
}

fn document(crd: &CustomResourceDefinition) -> Result<String, Error> {
    let name = || crd.metadata.name.clone().unwrap_or_default();
    let mut value =
        serde_json::to_value(crd).map_err(|source| Error::Json { name: name(), source })?;
    whole_numbers(&mut value);
    serde_saphyr::to_string(&value).map_err(|source| Error::Yaml { name: name(), source })
}

/// Writes whole numbers without a fraction: bounds are floats in Kubernetes, but `minimum: 1` reads
/// better than `minimum: 1.0`.
fn whole_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let whole = number.as_f64().filter(|f| number.is_f64() && f.fract() == 0.0);
            if let Some(whole) = whole.and_then(|whole| format!("{whole:.0}").parse::<i64>().ok()) {
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(fields) => fields.values_mut().for_each(whole_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Azure's CRD does not require a spec. A default adds one, so that readers find it in every
/// object.
fn optional_spec(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for schema in schemas(&mut crd) {
        schema.required = None;
        if let Some(spec) = schema.properties.as_mut().and_then(|all| all.get_mut("spec")) {
            spec.default = Some(JSON(json!({})));
        }
    }
    crd
}

fn bounded_name(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for schema in schemas(&mut crd) {
        let name = JSONSchemaProps {
            type_: Some("string".to_owned()),
            max_length: Some(MAX_NAME_LENGTH.into()),
            ..JSONSchemaProps::default()
        };
        let metadata = JSONSchemaProps {
            type_: Some("object".to_owned()),
            properties: Some([("name".to_owned(), name)].into()),
            ..JSONSchemaProps::default()
        };
        schema
            .properties
            .get_or_insert_default()
            .insert("metadata".to_owned(), metadata);
    }
    crd
}

/// Adds the labels that Cluster API needs. `cluster.x-k8s.io/<contract>` names the version of
/// Subnet to use with that contract, because a poolRef names no version. The labels of clusterctl
/// make `clusterctl move` move Subnets too: it can't create an IPAddress without its owners.
fn contract(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let label = |version: &str| (format!("cluster.x-k8s.io/{version}"), BERTH_VERSION.to_owned());
    let labels = crd.metadata.labels.get_or_insert_default();
    labels.extend(["v1beta1", "v1beta2"].map(label));
    let moved = [
        "clusterctl.cluster.x-k8s.io",
        "clusterctl.cluster.x-k8s.io/move-hierarchy",
    ];
    labels.extend(moved.map(|label| (label.to_owned(), String::new())));
    crd
}

fn tidy(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    schemas(&mut crd).for_each(tidy_schema);
    crd
}

fn schemas(crd: &mut CustomResourceDefinition) -> impl Iterator<Item = &mut JSONSchemaProps> {
    crd.spec
        .versions
        .iter_mut()
        .filter_map(|version| version.schema.as_mut()?.open_api_v3_schema.as_mut())
}

/// Removes what comes from Rust and does not belong in a CRD:
/// - `nullable` of every `Option`, and the null among the values of an optional enum. Without them
///   the API server drops a null, so `has(…)` in a rule is true only for a value;
/// - formats of unsigned numbers, which Kubernetes does not know; their minimum of 0 stays;
/// - names of types, and the line breaks of doc comments.
fn tidy_schema(schema: &mut JSONSchemaProps) {
    schema.nullable = None;
    schema.title = None;
    schema.format.take_if(|format| format.starts_with("uint"));
    schema
        .enum_
        .iter_mut()
        .for_each(|values| values.retain(|value| !value.0.is_null()));
    if let Some(text) = &mut schema.description {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    }
    schema
        .properties
        .iter_mut()
        .flat_map(|all| all.values_mut())
        .for_each(tidy_schema);
    if let Some(JSONSchemaPropsOrArray::Schema(items)) = &mut schema.items {
        tidy_schema(items);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(values)) = &mut schema.additional_properties {
        tidy_schema(values);
    }
}
