//! OpenAPI v3, from the JSON Schemas of k8s-openapi's types and from shapes.

mod merge;

pub use merge::mark;

use serde_json::{Map, Value, json};

/// An empty name is a name here, for the sake of objects written long ago.
const NAME_IS_OPTIONAL: &[&str] = &[
    "io.k8s.api.core.v1.ConfigMapEnvSource",
    "io.k8s.api.core.v1.ConfigMapKeySelector",
    "io.k8s.api.core.v1.ConfigMapProjection",
    "io.k8s.api.core.v1.ConfigMapVolumeSource",
    "io.k8s.api.core.v1.LocalObjectReference",
    "io.k8s.api.core.v1.SecretEnvSource",
    "io.k8s.api.core.v1.SecretKeySelector",
    "io.k8s.api.core.v1.SecretProjection",
];

/// Of any type in Kubernetes, where Rust's types say that they are objects.
const ANYTHING: &[&str] = &[
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
];

/// All schemas of a document, as OpenAPI v3 and Kubernetes have them.
pub fn adapt_all(schemas: &mut Map<String, Value>) {
    schemas.values_mut().for_each(adapt);
    for name in NAME_IS_OPTIONAL {
        let schema = schemas.get_mut(*name);
        schema.into_iter().for_each(|schema| do_not_require(schema, "name"));
    }
    for name in ANYTHING {
        let schema = schemas.get_mut(*name).and_then(Value::as_object_mut);
        schema.into_iter().for_each(|fields| drop(fields.remove("type")));
    }
}

/// From JSON Schema to OpenAPI v3: a reference stands alone, so one with a description beside it
/// goes into `allOf`.
pub fn adapt(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        // `true`: anything.
        *schema = json!({});
        return;
    };
    if fields.len() > 1
        && let Some(reference) = fields.remove("$ref")
    {
        fields.insert("allOf".to_owned(), json!([{"$ref": reference}]));
    }
    if fields.remove("x-kubernetes-int-or-string").is_some() {
        fields.insert("oneOf".to_owned(), json!([{"type": "number"}, {"type": "string"}]));
    }
    if let Some(Value::Object(properties)) = fields.get_mut("properties") {
        properties.values_mut().for_each(adapt);
    }
    for field in ["items", "additionalProperties"] {
        fields.get_mut(field).into_iter().for_each(adapt);
    }
}

/// Some fields are not optional in Rust's types but are in Kubernetes.
pub fn do_not_require(schema: &mut Value, name: &str) {
    let Some(fields) = schema.as_object_mut() else {
        return;
    };
    if let Some(Value::Array(required)) = fields.get_mut("required") {
        required.retain(|field| field != name);
        if required.is_empty() {
            fields.remove("required");
        }
    }
}
