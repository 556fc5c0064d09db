//! Schemas of what is answered but never stored, and what all schemas need to go from JSON Schema
//! to OpenAPI v3. The schema of a built-in kind is named in the kind's own file.

use k8s_openapi::api::{authentication, authorization, autoscaling, core, policy};
use k8s_openapi::apimachinery::pkg::apis::meta;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use crate::kinds::{Gvk, MakeSchema, schema_of};

/// How the schema of such a kind is made.
pub fn find((group, _, kind): Gvk<'_>) -> Option<MakeSchema> {
    Some(match (group, kind) {
        ("", "Binding") => schema_of::<core::v1::Binding>,
        ("authentication.k8s.io", "SelfSubjectReview") => schema_of::<authentication::v1::SelfSubjectReview>,
        ("authorization.k8s.io", "SelfSubjectAccessReview") => schema_of::<authorization::v1::SelfSubjectAccessReview>,
        ("authorization.k8s.io", "SelfSubjectRulesReview") => schema_of::<authorization::v1::SelfSubjectRulesReview>,
        ("authorization.k8s.io", "SubjectAccessReview") => schema_of::<authorization::v1::SubjectAccessReview>,
        ("autoscaling", "Scale") => schema_of::<autoscaling::v1::Scale>,
        ("policy", "Eviction") => schema_of::<policy::v1::Eviction>,
        _ => return None,
    })
}

/// An empty name is a name here, for the sake of objects written long ago.
pub const NAME_IS_OPTIONAL: &[&str] = &[
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
pub const ANYTHING: &[&str] = &[
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray",
];

pub const DELETE_OPTIONS: MakeSchema = schema_of::<meta::v1::DeleteOptions>;

/// `apiVersion`, `kind` and `metadata` as every object has them.
pub fn object_fields(generator: &mut SchemaGenerator) -> Value {
    // A type that refers to nothing but ObjectMeta.
    let schema = core::v1::ConfigMap::json_schema(generator);
    let mut fields = json!({});
    for field in ["apiVersion", "kind", "metadata"] {
        fields[field] = schema
            .pointer(&format!("/properties/{field}"))
            .cloned()
            .unwrap_or_default();
        adapt(&mut fields[field]);
    }
    fields
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
