//! RoleBindings.

use berth_apimachinery::metadata::NameRule;
use k8s_openapi::api::rbac::v1::RoleBinding;

use super::built_in::{BuiltIn, schema_of};
use crate::rules::rbac;

pub static KIND: BuiltIn = BuiltIn {
    group: rbac::GROUP,
    kind: "RoleBinding",
    plural: "rolebindings",
    names: NameRule::Segment,
    schema: schema_of::<RoleBinding>,
    default: rbac::default_binding,
    check: |object, change, errors| {
        rbac::check_binding(object, &["Role", "ClusterRole"], errors);
        rbac::check_binding_change(object, change.old, errors);
    },
    allow_create_on_update: true,
    columns: rbac::BINDING_COLUMNS,
    ..BuiltIn::PLAIN
};
