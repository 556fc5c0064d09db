//! Pods, alone and as templates.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Errors, list, text};
use berth_apimachinery::names;
use berth_apimachinery::shape::strict;
use berth_apimachinery::status::{FieldError, FieldProblem, Path};

pub fn check(pod: &Value, errors: &mut Errors) {
    check_spec(&pod["spec"], &Path::new("spec"), errors);
}

pub fn check_spec(spec: &Value, path: &Path, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        errors.push(FieldError::required(path.child("containers"), ""));
    }
    let volumes: BTreeSet<&str> = list(&spec["volumes"]).map(|(_, volume)| text(volume, "name")).collect();
    for field in ["initContainers", "containers"] {
        for (index, container) in list(&spec[field]) {
            let path = path.child(field).index(index);
            check_name(text(container, "name"), &path, &mut taken, errors);
            check_container(container, &volumes, &path, errors);
        }
    }
    let mut taken = BTreeSet::new();
    for (index, volume) in list(&spec["volumes"]) {
        check_name(
            text(volume, "name"),
            &path.child("volumes").index(index),
            &mut taken,
            errors,
        );
    }
    one_of(spec, "restartPolicy", &["Always", "OnFailure", "Never"], path, errors);
    one_of(
        spec,
        "dnsPolicy",
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        path,
        errors,
    );
    super::metadata::check_labels(&spec["nodeSelector"], &path.child("nodeSelector"), errors);
    for (index, toleration) in list(&spec["tolerations"]) {
        let path = path.child("tolerations").index(index);
        one_of(
            toleration,
            "operator",
            &["Equal", "Exists", "Lt", "Gt", ""],
            &path,
            errors,
        );
        if text(toleration, "operator") == "Exists" && !text(toleration, "value").is_empty() {
            let detail = "value must be empty when `operator` is 'Exists'";
            errors.push(FieldError::invalid(
                path.child("operator"),
                toleration["operator"].clone(),
                detail,
            ));
        }
        one_of(
            toleration,
            "effect",
            &["NoSchedule", "PreferNoSchedule", "NoExecute", ""],
            &path,
            errors,
        );
    }
    for (field, rule) in [
        ("nodeName", names::subdomain as fn(&str) -> _),
        ("hostname", names::label),
    ] {
        let name = text(spec, field);
        if let Some(problem) = rule(name).filter(|_| !name.is_empty()) {
            errors.push(FieldError::invalid(path.child(field), name.into(), problem));
        }
    }
}

fn check_name<'a>(name: &'a str, path: &Path, taken: &mut BTreeSet<&'a str>, errors: &mut Errors) {
    let field = path.child("name");
    if name.is_empty() {
        errors.push(FieldError::required(field, ""));
    } else if let Some(problem) = names::label(name) {
        errors.push(FieldError::invalid(field, name.into(), problem));
    } else if !taken.insert(name) {
        errors.push(FieldError::new(FieldProblem::Duplicate, field, Some(name.into()), ""));
    }
}

fn check_container(container: &Value, volumes: &BTreeSet<&str>, path: &Path, errors: &mut Errors) {
    if text(container, "image").is_empty() {
        errors.push(FieldError::required(path.child("image"), ""));
    }
    one_of(
        container,
        "imagePullPolicy",
        &["Always", "IfNotPresent", "Never"],
        path,
        errors,
    );
    for (index, port) in list(&container["ports"]) {
        let path = path.child("ports").index(index);
        check_port(&port["containerPort"], &path.child("containerPort"), errors);
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &path, errors);
    }
    check_resources(&container["resources"], &path.child("resources"), errors);
    for (index, variable) in list(&container["env"]) {
        if text(variable, "name").is_empty() {
            let field = path.child("env").index(index).child("name");
            errors.push(FieldError::required(field, ""));
        }
    }
    for (index, mount) in list(&container["volumeMounts"]) {
        let path = path.child("volumeMounts").index(index);
        let name = text(mount, "name");
        if !volumes.contains(name) {
            errors.push(FieldError::new(
                FieldProblem::NotFound,
                path.child("name"),
                Some(name.into()),
                "",
            ));
        }
        if text(mount, "mountPath").is_empty() {
            errors.push(FieldError::required(path.child("mountPath"), ""));
        }
    }
}

fn check_resources(resources: &Value, path: &Path, errors: &mut Errors) {
    let amount = |list: &str, name: &str| resources[list][name].as_str().and_then(strict::nano);
    for list in ["requests", "limits"] {
        let path = path.child(list);
        for (name, value) in resources[list].as_object().into_iter().flatten() {
            let given = amount(list, name);
            if given.is_some_and(|given| given < 0) {
                let detail = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(path.key(name), value.clone(), detail));
            }
            if list == "requests"
                && amount("limits", name).is_some_and(|limit| given.is_some_and(|given| given > limit))
            {
                let detail = format!(
                    "must be less than or equal to {name} limit of {}",
                    text(&resources["limits"], name)
                );
                errors.push(FieldError::invalid(path.clone(), value.clone(), detail));
            }
        }
    }
}

pub fn check_port(port: &Value, field: &Path, errors: &mut Errors) {
    match port.as_i64() {
        None | Some(0) => errors.push(FieldError::required(field.clone(), "")),
        Some(1..=65_535) => {}
        Some(_) => {
            let detail = "must be between 1 and 65535, inclusive";
            errors.push(FieldError::invalid(field.clone(), port.clone(), detail));
        }
    }
}

pub fn one_of(object: &Value, name: &str, allowed: &[&str], path: &Path, errors: &mut Errors) {
    let value = &object[name];
    if value.is_null() || value.as_str().is_some_and(|given| allowed.contains(&given)) {
        return;
    }
    let shown: Vec<String> = allowed
        .iter()
        .filter(|v| !v.is_empty())
        .map(|v| format!("{v:?}"))
        .collect();
    let detail = format!("supported values: {}", shown.join(", "));
    errors.push(FieldError::new(
        FieldProblem::NotSupported,
        path.child(name),
        Some(value.clone()),
        detail,
    ));
}

/// A pod's spec stays, but for images, the deadline and more tolerations. The node comes by binding.
pub fn changed(new: &Value, old: &Value, subresource: &str, errors: &mut Errors) {
    if subresource == "status" || subresource == "binding" {
        return;
    }
    for field in ["containers", "initContainers"] {
        let count = |pod: &Value| list(&pod["spec"][field]).count();
        if count(new) != count(old) {
            let detail = format!("pod updates may not add or remove {field}");
            errors.push(FieldError::forbidden(Path::new("spec").child(field), detail));
            return;
        }
    }
    let deadline = |pod: &Value| pod["spec"]["activeDeadlineSeconds"].as_i64();
    if deadline(old).is_some_and(|old| deadline(new).is_none_or(|new| new > old)) {
        let field = Path::new("spec.activeDeadlineSeconds");
        let value = new["spec"]["activeDeadlineSeconds"].clone();
        errors.push(FieldError::invalid(
            field,
            value,
            "must be less than or equal to previous value",
        ));
        return;
    }
    let movable = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for field in ["containers", "initContainers"] {
            let list = spec.get_mut(field).and_then(Value::as_array_mut);
            for container in list.into_iter().flatten() {
                container["image"] = Value::Null;
            }
        }
        for field in ["activeDeadlineSeconds", "tolerations"] {
            spec[field] = Value::Null;
        }
        spec
    };
    let kept = list(&old["spec"]["tolerations"])
        .all(|(_, toleration)| list(&new["spec"]["tolerations"]).any(|(_, found)| found == toleration));
    if movable(new) != movable(old) || !kept {
        let detail = "only spec.containers[*].image, spec.initContainers[*].image, spec.activeDeadlineSeconds and additions to spec.tolerations may change in a pod; make a new pod for anything else";
        errors.push(FieldError::forbidden(Path::new("spec"), detail));
    }
}
