//! OpenAPI v3, from the JSON Schemas of k8s-openapi's types and from shapes.

mod merge;

pub use merge::mark;

use serde_json::{Map, Value, json};

/// In these, an empty name is allowed, for old objects.
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

/// Schemas of any type in Kubernetes that are objects in Rust's types.
const ANYTHING: &[&str] = &[
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
];

/// Adapts all schemas of a document to OpenAPI v3 and Kubernetes.
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

/// Converts JSON Schema to OpenAPI v3. There a reference has no other keywords beside it, so one
/// with a description goes into `allOf`.
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

/// Makes a field optional that Rust's types require but Kubernetes does not.
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
