//! Roles, as objects: the one user of this server may do everything.

use berth_apimachinery::metadata::NameRule;
use k8s_openapi::api::rbac::v1::Role;

use super::built_in::{BuiltIn, schema_of};
use crate::rules::rbac;

pub static KIND: BuiltIn = BuiltIn {
    group: rbac::GROUP,
    kind: "Role",
    plural: "roles",
    names: NameRule::Segment,
    schema: schema_of::<Role>,
    check: |object, _, errors| rbac::check_role(object, errors),
    allow_create_on_update: true,
    ..BuiltIn::PLAIN
};
