//! The kinds that can be served.
//!
//! One file, `kinds/<kind>.rs`, has all that is special about a built-in kind, as a `BuiltIn`:
//! names, defaults, admission, checks, columns, selectable fields, deletion. A custom resource has
//! a CustomResourceDefinition for that. The rest of the server uses a `Kind` and does not know
//! which of the two it is.

mod built_in;
mod cluster_role;
mod cluster_role_binding;
mod config_map;
mod custom_resource;
mod custom_resource_definition;
mod daemon_set;
mod deployment;
mod event;
mod job;
mod kind;
mod lease;
mod namespace;
mod node;
mod pod;
mod replica_set;
mod role;
mod role_binding;
mod secret;
mod service;
mod service_account;
mod service_cidr;
#[cfg(test)]
mod tests;
mod validating_admission_policy;
mod validating_admission_policy_binding;

pub use built_in::{Answer, Change, Gvk, MakeSchema, Subresource, schema_of};
pub use custom_resource::kinds as of_definition;
pub use custom_resource_definition::{CONTENT_FINALIZER, TABLE as DEFINITIONS};
pub use kind::{Kind, ScalePaths};

use std::sync::Arc;

use built_in::BuiltIn;

/// In the order in which discovery lists their groups.
const BUILT_IN: &[&BuiltIn] = &[
    &config_map::KIND,
    &event::KIND,
    &namespace::KIND,
    &node::KIND,
    &pod::KIND,
    &secret::KIND,
    &service::KIND,
    &service_account::KIND,
    &daemon_set::KIND,
    &deployment::KIND,
    &replica_set::KIND,
    &job::KIND,
    &event::NEWER_KIND,
    &service_cidr::KIND,
    &cluster_role_binding::KIND,
    &cluster_role::KIND,
    &role_binding::KIND,
    &role::KIND,
    &validating_admission_policy::KIND,
    &validating_admission_policy_binding::KIND,
    &custom_resource_definition::KIND,
    &lease::KIND,
];

/// The kinds that are always served.
pub fn built_in() -> Vec<Arc<Kind>> {
    BUILT_IN.iter().map(|kind| Arc::new(Kind::built_in(kind))).collect()
}
