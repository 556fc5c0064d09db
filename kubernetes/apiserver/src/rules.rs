//! What kube-apiserver does to built-in kinds beyond their shape: defaults, and checks of values.
//!
//! Custom resources bring their own (see `schema`); of these rules only those about metadata hold for them. The words of a refusal are ours,
//! its code, reason and field are Kubernetes'.

mod admit;
mod defaults;
mod metadata;
mod node;
mod pod;
mod policy;
mod service_cidr;
mod simple;
mod workload;

pub use admit::{admit, readmit};
pub use defaults::default;
pub use metadata::metadata;

use serde_json::Value;

use crate::kinds::Kind;
use berth_apimachinery::status::FieldError;

type Errors = Vec<FieldError>;

/// A new object of a built-in kind.
pub fn create(kind: &Kind, object: &Value) -> Errors {
    let mut errors = Errors::new();
    check(kind, object, &mut errors);
    errors
}

/// A change of one.
pub fn update(kind: &Kind, new: &Value, old: &Value, subresource: &str) -> Errors {
    let mut errors = Errors::new();
    // What an event needs is asked of a new one alone.
    if kind.kind != "Event" {
        check(kind, new, &mut errors);
    }
    match kind.kind.as_str() {
        "Pod" => pod::changed(new, old, subresource, &mut errors),
        "Node" => node::changed(new, old, &mut errors),
        "Deployment" | "ReplicaSet" | "DaemonSet" => workload::changed(new, old, &mut errors),
        "ConfigMap" | "Secret" => simple::data_changed(new, old, &mut errors),
        "Service" => simple::service_changed(new, old, &mut errors),
        "RoleBinding" | "ClusterRoleBinding" => simple::binding_changed(new, old, &mut errors),
        "ServiceCIDR" => service_cidr::changed(new, old, &mut errors),
        _ => {}
    }
    errors
}

fn check(kind: &Kind, object: &Value, errors: &mut Errors) {
    match kind.kind.as_str() {
        "Pod" => pod::check(object, errors),
        "Node" => node::check(object, errors),
        "Deployment" | "ReplicaSet" | "DaemonSet" => workload::check(object, errors),
        "ConfigMap" => simple::data(object, errors),
        "Secret" => simple::secret(object, errors),
        "Service" => simple::service(object, errors),
        "Role" | "ClusterRole" => simple::role(object, errors),
        "RoleBinding" | "ClusterRoleBinding" => simple::binding(kind, object, errors),
        "ServiceCIDR" => service_cidr::check(object, errors),
        "ValidatingAdmissionPolicy" => policy::check(object, errors),
        "ValidatingAdmissionPolicyBinding" => policy::check_binding(object, errors),
        "Lease" => simple::lease(object, errors),
        "Event" => simple::event(kind, object, errors),
        _ => {}
    }
}

fn list(value: &Value) -> impl Iterator<Item = (usize, &Value)> {
    value.as_array().into_iter().flatten().enumerate()
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}
