//! ClusterRoleBindings: RoleBindings for all namespaces. Their ServiceAccounts name a namespace.

use berth_apimachinery::metadata::NameRule;
use berth_apimachinery::status::{FieldError, Path};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use serde_json::Value;

use super::built_in::{BuiltIn, Change, schema_of};
use crate::rules::{Errors, list, rbac, text};

pub static KIND: BuiltIn = BuiltIn {
    group: rbac::GROUP,
    kind: "ClusterRoleBinding",
    plural: "clusterrolebindings",
    namespaced: false,
    names: NameRule::Segment,
    schema: schema_of::<ClusterRoleBinding>,
    default: rbac::default_binding,
    check,
    allow_create_on_update: true,
    columns: rbac::BINDING_COLUMNS,
    ..BuiltIn::PLAIN
};

fn check(object: &Value, change: &Change<'_>, errors: &mut Errors) {
    rbac::check_binding(object, &["ClusterRole"], errors);
    for (index, subject) in list(&object["subjects"]) {
        if subject["kind"] == "ServiceAccount" && text(subject, "namespace").is_empty() {
            let field = Path::new("subjects").index(index).child("namespace");
            errors.push(FieldError::required(field, ""));
        }
    }
    rbac::check_binding_change(object, change.old, errors);
}
