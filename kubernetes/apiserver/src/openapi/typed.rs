//! Schemas of kinds that are answered but never stored. A built-in kind names its schema in its
//! own file.

use berth_apimachinery::openapi_v3;
use k8s_openapi::api::{authentication, authorization, autoscaling, core, policy};
use k8s_openapi::apimachinery::pkg::apis::meta;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

use crate::kinds::{Gvk, MakeSchema, schema_of};

/// The function that makes the schema of such a kind.
pub fn find((group, _, kind): Gvk<'_>) -> Option<MakeSchema> {
    Some(match (group, kind) {
        ("", "Binding") => schema_of::<core::v1::Binding>,
        ("authentication.k8s.io", "SelfSubjectReview") => {
            schema_of::<authentication::v1::SelfSubjectReview>
        }
        ("authorization.k8s.io", "SelfSubjectAccessReview") => {
            schema_of::<authorization::v1::SelfSubjectAccessReview>
        }
        ("authorization.k8s.io", "SelfSubjectRulesReview") => {
            schema_of::<authorization::v1::SelfSubjectRulesReview>
        }
        ("authorization.k8s.io", "SubjectAccessReview") => {
            schema_of::<authorization::v1::SubjectAccessReview>
        }
        ("autoscaling", "Scale") => schema_of::<autoscaling::v1::Scale>,
        ("policy", "Eviction") => schema_of::<policy::v1::Eviction>,
        _ => return None,
    })
}

pub const DELETE_OPTIONS: MakeSchema = schema_of::<meta::v1::DeleteOptions>;

/// `apiVersion`, `kind` and `metadata` as every object has them.
pub fn object_fields(generator: &mut SchemaGenerator) -> Value {
    // ConfigMap refers to no other type than ObjectMeta.
    let schema = core::v1::ConfigMap::json_schema(generator);
    let mut fields = json!({});
    for field in ["apiVersion", "kind", "metadata"] {
        fields[field] = schema
            .pointer(&format!("/properties/{field}"))
            .cloned()
            .unwrap_or_default();
        openapi_v3::adapt(&mut fields[field]);
    }
    fields
}
