//! Rules that several kinds share. Rules of one kind are in its own file in `kinds`.
//!
//! The text of a refusal is Berth's; its code, reason and field are those of Kubernetes.

pub mod data;
pub mod defaults;
pub mod match_resources;
pub mod pod_template;
pub mod rbac;
pub mod workload;

use berth_apimachinery::status::{FieldError, Path};
use serde_json::Value;

pub type Errors = Vec<FieldError>;

pub fn list(value: &Value) -> impl Iterator<Item = (usize, &Value)> {
    value.as_array().into_iter().flatten().enumerate()
}

pub fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value[field].as_str().unwrap_or_default()
}

pub fn one_of(object: &Value, name: &str, allowed: &[&str], path: &Path, errors: &mut Errors) {
    let value = &object[name];
    if value.is_null() || value.as_str().is_some_and(|given| allowed.contains(&given)) {
        return;
    }
    let supported: Vec<&str> = allowed.iter().copied().filter(|word| !word.is_empty()).collect();
    errors.push(FieldError::not_supported(path.child(name), value, &supported));
}
