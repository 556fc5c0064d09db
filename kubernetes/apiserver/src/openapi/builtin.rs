//! Schemas of the built-in kinds, with their descriptions, as k8s-openapi has them, and as OpenAPI v3 wants them.

use k8s_openapi::api::{
    admissionregistration, apps, authentication, authorization, autoscaling, coordination, core, events, networking,
    policy, rbac,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

pub type Make = fn(&mut SchemaGenerator) -> Schema;

fn make<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

const RBAC: &str = "rbac.authorization.k8s.io";
const ADMISSION: &str = "admissionregistration.k8s.io";

/// Group, kind, how its schema is made. All are version v1.
#[rustfmt::skip]
const TYPES: &[(&str, &str, Make)] = &[
    ("", "Binding", make::<core::v1::Binding>),
    ("", "ConfigMap", make::<core::v1::ConfigMap>),
    ("", "Event", make::<core::v1::Event>),
    ("", "Namespace", make::<core::v1::Namespace>),
    ("", "Node", make::<core::v1::Node>),
    ("", "Pod", make::<core::v1::Pod>),
    ("", "Secret", make::<core::v1::Secret>),
    ("", "Service", make::<core::v1::Service>),
    ("", "ServiceAccount", make::<core::v1::ServiceAccount>),
    (ADMISSION, "ValidatingAdmissionPolicy", make::<admissionregistration::v1::ValidatingAdmissionPolicy>),
    (ADMISSION, "ValidatingAdmissionPolicyBinding", make::<admissionregistration::v1::ValidatingAdmissionPolicyBinding>),
    ("apiextensions.k8s.io", "CustomResourceDefinition", make::<apiextensions::v1::CustomResourceDefinition>),
    ("apps", "DaemonSet", make::<apps::v1::DaemonSet>),
    ("apps", "Deployment", make::<apps::v1::Deployment>),
    ("apps", "ReplicaSet", make::<apps::v1::ReplicaSet>),
    ("authentication.k8s.io", "SelfSubjectReview", make::<authentication::v1::SelfSubjectReview>),
    ("authorization.k8s.io", "SelfSubjectAccessReview", make::<authorization::v1::SelfSubjectAccessReview>),
    ("authorization.k8s.io", "SelfSubjectRulesReview", make::<authorization::v1::SelfSubjectRulesReview>),
    ("authorization.k8s.io", "SubjectAccessReview", make::<authorization::v1::SubjectAccessReview>),
    ("autoscaling", "Scale", make::<autoscaling::v1::Scale>),
    ("coordination.k8s.io", "Lease", make::<coordination::v1::Lease>),
    ("events.k8s.io", "Event", make::<events::v1::Event>),
    ("networking.k8s.io", "ServiceCIDR", make::<networking::v1::ServiceCIDR>),
    ("policy", "Eviction", make::<policy::v1::Eviction>),
    (RBAC, "ClusterRole", make::<rbac::v1::ClusterRole>),
    (RBAC, "ClusterRoleBinding", make::<rbac::v1::ClusterRoleBinding>),
    (RBAC, "Role", make::<rbac::v1::Role>),
    (RBAC, "RoleBinding", make::<rbac::v1::RoleBinding>),
];

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

/// How the schema of a built-in kind is made. It answers with a reference and leaves the schema with the generator.
pub fn find(group: &str, kind: &str) -> Option<Make> {
    TYPES
        .iter()
        .find(|(g, k, _)| *g == group && *k == kind)
        .map(|(_, _, make)| *make)
}

pub const DELETE_OPTIONS: Make = make::<meta::v1::DeleteOptions>;

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

/// From JSON Schema to OpenAPI v3: a reference stands alone, so one with a description beside it goes into `allOf`.
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
