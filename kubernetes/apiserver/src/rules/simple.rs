//! Kinds with few rules.

use serde_json::Value;

use super::{Errors, list, pod, text};
use crate::kinds::Kind;
use berth_apimachinery::names;
use berth_apimachinery::status::{FieldError, FieldProblem, Path};

const LARGEST_DATA: usize = 1 << 20;

/// ConfigMaps and Secrets.
pub fn data(object: &Value, errors: &mut Errors) {
    let mut size = 0;
    for field in ["data", "binaryData"] {
        for (key, value) in object[field].as_object().into_iter().flatten() {
            size += value.as_str().unwrap_or_default().len();
            let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if key.is_empty() || key.len() > 253 || key == "." || key.starts_with("..") || !key.chars().all(inner) {
                let detail = "a valid key is 1 to 253 letters, digits, '-', '_' or '.', and not '.' or '..'";
                errors.push(FieldError::invalid(
                    Path::new(field).key(key),
                    key.as_str().into(),
                    detail,
                ));
            }
        }
    }
    for key in object["binaryData"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key)
    {
        if !object["data"][key].is_null() {
            let field = Path::new("data").key(key);
            errors.push(FieldError::invalid(
                field,
                key.as_str().into(),
                "duplicate of key present in binaryData",
            ));
        }
    }
    if size > LARGEST_DATA {
        let detail = format!("may not be more than {LARGEST_DATA} bytes");
        errors.push(FieldError::new(FieldProblem::TooLong, Path::new("[]"), None, detail));
    }
}

/// Keys that a Secret of this type can't be without.
const NEEDED: &[(&str, &[&str])] = &[
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
];

pub fn secret(object: &Value, errors: &mut Errors) {
    data(object, errors);
    let needed = NEEDED.iter().filter(|(kind, _)| object["type"] == *kind);
    for key in needed.flat_map(|(_, keys)| *keys) {
        if object["data"][key].is_null() {
            errors.push(FieldError::required(Path::new("data").key(key), ""));
        }
    }
}

pub fn data_changed(new: &Value, old: &Value, errors: &mut Errors) {
    if !old["type"].is_null() && new["type"] != old["type"] {
        errors.push(FieldError::invalid(
            Path::new("type"),
            new["type"].clone(),
            "field is immutable",
        ));
    }
    if old["immutable"] != true {
        return;
    }
    for field in ["immutable", "data", "binaryData"] {
        if new[field] != old[field] {
            let detail = "field is immutable when `immutable` is set";
            errors.push(FieldError::forbidden(Path::new(field), detail));
        }
    }
}

pub fn service(object: &Value, errors: &mut Errors) {
    let spec = &object["spec"];
    let path = Path::new("spec");
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    pod::one_of(spec, "type", &kinds, &path, errors);
    pod::one_of(spec, "sessionAffinity", &["ClientIP", "None"], &path, errors);
    super::metadata::check_labels(&spec["selector"], &path.child("selector"), errors);
    let count = spec["ports"].as_array().map_or(0, Vec::len);
    let headless = spec["clusterIP"] == "None";
    if count == 0 && !headless && spec["type"] != "ExternalName" {
        errors.push(FieldError::required(path.child("ports"), ""));
    }
    for (index, port) in list(&spec["ports"]) {
        let path = path.child("ports").index(index);
        let name = text(port, "name");
        if name.is_empty() && count > 1 {
            errors.push(FieldError::required(path.child("name"), ""));
        } else if !name.is_empty()
            && let Some(problem) = names::label(name)
        {
            errors.push(FieldError::invalid(path.child("name"), name.into(), problem));
        }
        for field in ["port", "targetPort"] {
            if port[field]
                .as_i64()
                .is_some_and(|number| !(1..=65_535).contains(&number))
            {
                let detail = "must be between 1 and 65535, inclusive";
                errors.push(FieldError::invalid(path.child(field), port[field].clone(), detail));
            }
        }
        pod::one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &path, errors);
    }
}

pub fn service_changed(new: &Value, old: &Value, errors: &mut Errors) {
    let address = &old["spec"]["clusterIP"];
    if address.is_string() && new["spec"]["clusterIP"] != *address && new["spec"]["type"] != "ExternalName" {
        let field = Path::new("spec.clusterIPs[0]");
        errors.push(FieldError::invalid(
            field,
            new["spec"]["clusterIPs"].clone(),
            "may not change once set",
        ));
    }
}

pub fn binding_changed(new: &Value, old: &Value, errors: &mut Errors) {
    if new["roleRef"] != old["roleRef"] {
        let detail = "cannot change roleRef";
        errors.push(FieldError::invalid(
            Path::new("roleRef"),
            new["roleRef"].clone(),
            detail,
        ));
    }
}

pub fn role(object: &Value, errors: &mut Errors) {
    for (index, rule) in list(&object["rules"]) {
        let path = Path::new("rules").index(index);
        let empty = |field: &str| rule[field].as_array().is_none_or(Vec::is_empty);
        if empty("verbs") {
            errors.push(FieldError::required(
                path.child("verbs"),
                "verbs must contain at least one value",
            ));
        }
        if empty("nonResourceURLs") {
            for field in ["apiGroups", "resources"].into_iter().filter(|field| empty(field)) {
                let detail = format!("resource rules must supply at least one {field}");
                errors.push(FieldError::required(path.child(field), detail));
            }
        }
    }
}

pub fn binding(kind: &Kind, object: &Value, errors: &mut Errors) {
    let path = Path::new("roleRef");
    let roles: &[&str] = if kind.namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    pod::one_of(&object["roleRef"], "kind", roles, &path, errors);
    if text(&object["roleRef"], "name").is_empty() {
        errors.push(FieldError::required(path.child("name"), ""));
    }
    for (index, subject) in list(&object["subjects"]) {
        let path = Path::new("subjects").index(index);
        pod::one_of(subject, "kind", &["ServiceAccount", "User", "Group"], &path, errors);
        if text(subject, "name").is_empty() {
            errors.push(FieldError::required(path.child("name"), ""));
        }
        if !kind.namespaced && subject["kind"] == "ServiceAccount" && text(subject, "namespace").is_empty() {
            errors.push(FieldError::required(path.child("namespace"), ""));
        }
    }
}

pub fn lease(object: &Value, errors: &mut Errors) {
    let spec = &object["spec"];
    if spec["leaseDurationSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds <= 0)
    {
        let field = Path::new("spec.leaseDurationSeconds");
        let value = spec["leaseDurationSeconds"].clone();
        errors.push(FieldError::invalid(field, value, "must be greater than 0"));
    }
    if spec["leaseTransitions"].as_i64().is_some_and(|count| count < 0) {
        let field = Path::new("spec.leaseTransitions");
        let value = spec["leaseTransitions"].clone();
        errors.push(FieldError::invalid(field, value, "must be greater than or equal to 0"));
    }
}

/// An event is about an object of its own namespace. The newer group wants more of an event than the older.
pub fn event(kind: &Kind, object: &Value, errors: &mut Errors) {
    let about = if kind.group.is_empty() {
        "involvedObject"
    } else {
        "regarding"
    };
    let namespace = text(&object["metadata"], "namespace");
    let target = text(&object[about], "namespace");
    if target != namespace && !(target.is_empty() && namespace == "default") {
        let field = Path::new("involvedObject.namespace");
        errors.push(FieldError::invalid(
            field,
            target.into(),
            "does not match event.namespace",
        ));
    }
    let newer = !kind.group.is_empty();
    if object["eventTime"].is_null() {
        if newer {
            errors.push(FieldError::required(Path::new("eventTime"), ""));
        }
    } else {
        let reporter = if newer {
            "reportingController"
        } else {
            "reportingComponent"
        };
        for field in [reporter, "reportingInstance", "action", "reason"] {
            if text(object, field).is_empty() {
                errors.push(FieldError::required(Path::new(field), ""));
            }
        }
    }
    if !newer {
        return;
    }
    if !matches!(text(object, "type"), "Normal" | "Warning") {
        let detail = "must be Normal or Warning";
        errors.push(FieldError::invalid(Path::new("type"), object["type"].clone(), detail));
    }
    if text(object, "note").len() > 1024 {
        let detail = "can have at most 1024 bytes";
        errors.push(FieldError::invalid(Path::new("note"), "".into(), detail));
    }
}
