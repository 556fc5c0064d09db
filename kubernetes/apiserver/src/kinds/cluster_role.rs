//! ClusterRoles: Roles of all namespaces.

use berth_apimachinery::metadata::NameRule;
use k8s_openapi::api::rbac::v1::ClusterRole;

use super::built_in::{BuiltIn, schema_of};
use crate::rules::rbac;

pub static KIND: BuiltIn = BuiltIn {
    group: rbac::GROUP,
    kind: "ClusterRole",
    plural: "clusterroles",
    namespaced: false,
    names: NameRule::Segment,
    schema: schema_of::<ClusterRole>,
    check: |object, _, errors| rbac::check_role(object, errors),
    allow_create_on_update: true,
    ..BuiltIn::PLAIN
};
