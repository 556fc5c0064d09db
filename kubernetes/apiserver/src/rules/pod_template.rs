//! The spec of a pod, alone or in a template: its defaults and its checks.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use berth_apimachinery::metadata;
use berth_apimachinery::names;
use berth_apimachinery::shape::strict;
use berth_apimachinery::status::{FieldError, FieldProblem, Path};
use serde_json::{Map, Value, json};

use super::defaults::{each, fill, fill_if_there};
use super::{Errors, list, one_of, text};

/// Made once, because every write of a pod needs it.
static POD: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    })
});
static CONTAINER: LazyLock<Value> = LazyLock::new(
    || json!({"terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File", "resources": {}}),
);
static PORT: LazyLock<Value> = LazyLock::new(|| json!({"protocol": "TCP"}));
static PROBE: LazyLock<Value> = LazyLock::new(
    || json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}),
);

pub fn default(spec: &mut Value) {
    fill(spec, &POD);
    if spec["terminationGracePeriodSeconds"]
        .as_i64()
        .is_some_and(|grace| grace < 0)
    {
        spec["terminationGracePeriodSeconds"] = 1.into();
    }
    // The older name of the same thing.
    if spec["serviceAccountName"].is_string() {
        spec["serviceAccount"] = spec["serviceAccountName"].clone();
    }
    let host = spec["hostNetwork"] == true;
    for containers in ["containers", "initContainers", "ephemeralContainers"] {
        each(spec, containers).for_each(|container| self::container(container, host));
    }
    each(spec, "volumes").for_each(volume);
}

fn container(container: &mut Value, host_network: bool) {
    let image = container["image"].as_str().unwrap_or_default();
    let tag = image.rsplit('/').next().unwrap_or_default();
    let latest = !image.contains('@') && (!tag.contains(':') || tag.ends_with(":latest"));
    let pull = if latest { "Always" } else { "IfNotPresent" };
    fill(container, &CONTAINER);
    if container.get("imagePullPolicy").is_none() {
        container["imagePullPolicy"] = pull.into();
    }
    each(container, "ports").for_each(|port| {
        fill(port, &PORT);
        if host_network {
            let number = port["containerPort"].clone();
            fill(port, &json!({"hostPort": number}));
        }
    });
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        fill_if_there(container, probe, &PROBE);
        if let Some(probe) = container.get_mut(probe) {
            handler(probe);
        }
    }
    for hook in ["postStart", "preStop"] {
        if let Some(hook) = container
            .get_mut("lifecycle")
            .and_then(|lifecycle| lifecycle.get_mut(hook))
        {
            handler(hook);
        }
    }
    each(container, "env").for_each(|variable| {
        if let Some(source) = variable.get_mut("valueFrom") {
            fill_if_there(source, "fieldRef", &json!({"apiVersion": "v1"}));
        }
    });
    if let Some(limits) = container["resources"].get("limits").cloned() {
        fill(&mut container["resources"]["requests"], &limits);
    }
}

/// The handler of a probe or a hook.
fn handler(handler: &mut Value) {
    fill_if_there(handler, "httpGet", &json!({"path": "/", "scheme": "HTTP"}));
    fill_if_there(handler, "grpc", &json!({"service": ""}));
}

fn volume(volume: &mut Value) {
    let sources = volume.as_object().map_or(0, Map::len);
    if sources == 1 {
        volume["emptyDir"] = json!({});
    }
    for source in ["configMap", "secret", "projected", "downwardAPI"] {
        fill_if_there(volume, source, &json!({"defaultMode": 420}));
    }
    fill_if_there(volume, "hostPath", &json!({"type": ""}));
    if let Some(source) = volume.get_mut("downwardAPI") {
        each(source, "items")
            .for_each(|item| fill_if_there(item, "fieldRef", &json!({"apiVersion": "v1"})));
    }
}

pub fn check(spec: &Value, path: &Path, errors: &mut Errors) {
    let mut taken = BTreeSet::new();
    if spec["containers"].as_array().is_none_or(Vec::is_empty) {
        errors.push(FieldError::required(path.child("containers"), ""));
    }
    let volumes: BTreeSet<&str> =
        list(&spec["volumes"]).map(|(_, volume)| text(volume, "name")).collect();
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
    metadata::check_labels(&spec["nodeSelector"], &path.child("nodeSelector"), errors);
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
        errors.push(FieldError::duplicate(field, name.into(), ""));
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
                && amount("limits", name)
                    .is_some_and(|limit| given.is_some_and(|given| given > limit))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_without_a_tag_is_always_pulled() {
        for (image, policy) in [
            ("x", "Always"),
            ("host:5000/x", "Always"),
            ("x:latest", "Always"),
            ("x:1", "IfNotPresent"),
            ("x@sha256:aa", "IfNotPresent"),
        ] {
            let mut spec = json!({"containers": [{"name": "a", "image": image}]});
            default(&mut spec);
            assert_eq!(spec["containers"][0]["imagePullPolicy"], policy, "{image}");
        }
    }

    #[test]
    fn defaults_do_not_replace_what_is_given_and_settle_at_once() {
        let container = json!({"name": "a", "image": "x", "resources": {"limits": {"cpu": "1"}}});
        let mut spec = json!({"restartPolicy": "Never", "containers": [container]});
        default(&mut spec);
        assert_eq!(spec["restartPolicy"], "Never");
        assert_eq!(spec["containers"][0]["resources"]["requests"]["cpu"], "1");
        let once = spec.clone();
        default(&mut spec);
        assert_eq!(spec, once);
    }
}
