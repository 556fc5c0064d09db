//! Values that Kubernetes fills in where none is given.

use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value, json};

use crate::kinds::Kind;

pub fn default(kind: &Kind, object: &mut Value) {
    match kind.kind.as_str() {
        "Pod" => {
            fill(&mut object["spec"], &json!({"enableServiceLinks": true}));
            pod(&mut object["spec"]);
            if object["status"].is_object() {
                addresses(&mut object["status"]);
            }
        }
        "Deployment" => {
            let spec = &mut object["spec"];
            fill(
                spec,
                &json!({"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {}}),
            );
            rolling(
                &mut spec["strategy"],
                &json!({"maxSurge": "25%", "maxUnavailable": "25%"}),
            );
            template(spec);
        }
        "ReplicaSet" => {
            fill(&mut object["spec"], &json!({"replicas": 1}));
            template(&mut object["spec"]);
        }
        "DaemonSet" => {
            let spec = &mut object["spec"];
            fill(spec, &json!({"revisionHistoryLimit": 10, "updateStrategy": {}}));
            rolling(
                &mut spec["updateStrategy"],
                &json!({"maxSurge": 0, "maxUnavailable": 1}),
            );
            template(spec);
        }
        "Namespace" => {
            let name = object["metadata"]["name"].clone();
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
        }
        "Service" => service(&mut object["spec"]),
        "Secret" => secret(object),
        "Node" => node(&mut object["spec"]),
        "RoleBinding" | "ClusterRoleBinding" => binding(object),
        "ValidatingAdmissionPolicy" => {
            fill(&mut object["spec"], &json!({"failurePolicy": "Fail"}));
            match_resources(&mut object["spec"], "matchConstraints");
        }
        "ValidatingAdmissionPolicyBinding" => match_resources(&mut object["spec"], "matchResources"),
        _ => {}
    }
}

/// Which requests an admission policy is about.
fn match_resources(spec: &mut Value, name: &str) {
    let Some(constraints) = spec.get_mut(name).filter(|constraints| constraints.is_object()) else {
        return;
    };
    fill(
        constraints,
        &json!({"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}),
    );
    for rules in ["resourceRules", "excludeResourceRules"] {
        let rules = constraints.get_mut(rules).and_then(Value::as_array_mut);
        for rule in rules.into_iter().flatten() {
            fill(rule, &json!({"scope": "*"}));
        }
    }
}

/// Made once: every pod that is written passes here.
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
static PROBE: LazyLock<Value> =
    LazyLock::new(|| json!({"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}));

/// Sets the fields that are missing.
fn fill(object: &mut Value, defaults: &Value) {
    if object.is_null() {
        *object = json!({});
    }
    if let (Some(object), Some(defaults)) = (object.as_object_mut(), defaults.as_object()) {
        for (field, value) in defaults {
            object.entry(field).or_insert_with(|| value.clone());
        }
    }
}

/// Only where the object is there at all.
fn fill_if_there(parent: &mut Value, field: &str, defaults: &Value) {
    if let Some(object) = parent.get_mut(field).filter(|value| value.is_object()) {
        fill(object, defaults);
    }
}

fn each<'a>(parent: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    let list = parent.get_mut(field).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter(|value| value.is_object())
}

fn rolling(strategy: &mut Value, parameters: &Value) {
    fill(strategy, &json!({"type": "RollingUpdate"}));
    if strategy["type"] == "RollingUpdate" {
        fill(&mut strategy["rollingUpdate"], parameters);
    }
}

fn template(spec: &mut Value) {
    if spec["template"].is_object() {
        pod(&mut spec["template"]["spec"]);
    }
}

fn pod(spec: &mut Value) {
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

/// A pod's first address stands in two places; the older one decides.
fn addresses(status: &mut Value) {
    let older = status["podIP"].as_str().unwrap_or_default().to_owned();
    let first = status["podIPs"][0]["ip"].clone();
    if older.is_empty() && first.is_string() {
        status["podIP"] = first;
    } else if !older.is_empty() && first != *older {
        status["podIPs"] = json!([{"ip": older}]);
    }
    if let Some(fields) = status.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
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

/// What a probe or a hook calls.
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
        each(source, "items").for_each(|item| fill_if_there(item, "fieldRef", &json!({"apiVersion": "v1"})));
    }
}

fn service(spec: &mut Value) {
    fill(spec, &json!({"type": "ClusterIP", "sessionAffinity": "None"}));
    if spec["type"] != "ExternalName" {
        fill(spec, &json!({"internalTrafficPolicy": "Cluster"}));
    }
    each(spec, "ports").for_each(|port| {
        let number = port["port"].clone();
        fill(port, &json!({"protocol": "TCP", "targetPort": number}));
    });
}

fn secret(object: &mut Value) {
    fill(object, &json!({"type": "Opaque"}));
    let plain = object.as_object_mut().and_then(|fields| fields.remove("stringData"));
    if let Some(Value::Object(plain)) = plain {
        fill(object, &json!({"data": {}}));
        for (key, value) in plain {
            let encoded = BASE64_STANDARD.encode(value.as_str().unwrap_or_default());
            object["data"][&key] = encoded.into();
        }
    }
}

/// The first podCIDR stands in two places; whoever sets one sets both.
fn node(spec: &mut Value) {
    let first = spec["podCIDRs"][0].clone();
    let one = spec["podCIDR"].clone();
    match (one.is_string(), first.is_string()) {
        (true, false) => spec["podCIDRs"] = json!([one]),
        (false, true) => spec["podCIDR"] = first,
        _ => {}
    }
    if spec.is_null() {
        *spec = json!({});
    }
    if let Some(fields) = spec.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
}

fn binding(object: &mut Value) {
    const GROUP: &str = "rbac.authorization.k8s.io";
    fill_if_there(object, "roleRef", &json!({"apiGroup": GROUP}));
    each(object, "subjects").for_each(|subject| {
        if subject["kind"] != "ServiceAccount" {
            fill(subject, &json!({"apiGroup": GROUP}));
        }
    });
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
            pod(&mut spec);
            assert_eq!(spec["containers"][0]["imagePullPolicy"], policy, "{image}");
        }
    }

    #[test]
    fn plain_text_of_a_secret_is_encoded_and_not_kept() {
        let mut object = json!({"data": {"a": "eA=="}, "stringData": {"b": "y"}});
        secret(&mut object);
        assert_eq!(object, json!({"type": "Opaque", "data": {"a": "eA==", "b": "eQ=="}}));
    }

    #[test]
    fn defaults_do_not_replace_what_is_given_and_settle_at_once() {
        let mut spec = json!({"restartPolicy": "Never", "containers": [{"name": "a", "image": "x", "resources": {"limits": {"cpu": "1"}}}]});
        pod(&mut spec);
        assert_eq!(spec["restartPolicy"], "Never");
        assert_eq!(spec["containers"][0]["resources"]["requests"]["cpu"], "1");
        let once = spec.clone();
        pod(&mut spec);
        assert_eq!(spec, once);
    }
}
