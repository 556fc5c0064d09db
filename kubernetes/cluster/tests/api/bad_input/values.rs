//! Values that the built-in kinds do not take.

use serde_json::json;

use super::{Desk, but, config_map, deployment, pod};
use crate::namespace::unique;
use crate::request::post;

const INVALID: &str = "FieldValueInvalid";
const REQUIRED: &str = "FieldValueRequired";
const UNSUPPORTED: &str = "FieldValueNotSupported";
const DUPLICATE: &str = "FieldValueDuplicate";

#[test]
fn a_pod_that_no_node_could_run_is_refused() {
    let desk = Desk::new();
    let container = |more: serde_json::Value| {
        let mut container = json!({"name": "c", "image": "x"});
        container
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        json!([container])
    };
    for (what, pointer, value, causes) in [
        (
            "no containers",
            "/spec/containers",
            json!([]),
            &[(REQUIRED, "spec.containers")][..],
        ),
        (
            "no name",
            "/spec/containers",
            json!([{"image": "x"}]),
            &[(REQUIRED, "spec.containers[0].name")],
        ),
        (
            "no image",
            "/spec/containers",
            json!([{"name": "c"}]),
            &[(REQUIRED, "spec.containers[0].image")],
        ),
        (
            "a bad name",
            "/spec/containers/0/name",
            json!("C_"),
            &[(INVALID, "spec.containers[0].name")],
        ),
        (
            "a name twice",
            "/spec/containers",
            json!([{"name": "c", "image": "x"}, {"name": "c", "image": "x"}]),
            &[(DUPLICATE, "spec.containers[1].name")],
        ),
        (
            "restartPolicy",
            "/spec/restartPolicy",
            json!("Sometimes"),
            &[(UNSUPPORTED, "spec.restartPolicy")],
        ),
        (
            "dnsPolicy",
            "/spec/dnsPolicy",
            json!("Sometimes"),
            &[(UNSUPPORTED, "spec.dnsPolicy")],
        ),
        (
            "imagePullPolicy",
            "/spec/containers",
            container(json!({"imagePullPolicy": "Sometimes"})),
            &[(UNSUPPORTED, "spec.containers[0].imagePullPolicy")],
        ),
        (
            "no port",
            "/spec/containers",
            container(json!({"ports": [{"name": "a"}]})),
            &[(REQUIRED, "spec.containers[0].ports[0].containerPort")],
        ),
        (
            "a port out of range",
            "/spec/containers",
            container(json!({"ports": [{"containerPort": 70000}]})),
            &[(INVALID, "spec.containers[0].ports[0].containerPort")],
        ),
        (
            "protocol",
            "/spec/containers",
            container(json!({"ports": [{"containerPort": 80, "protocol": "CARRIER"}]})),
            &[(UNSUPPORTED, "spec.containers[0].ports[0].protocol")],
        ),
        (
            "a variable without a name",
            "/spec/containers",
            container(json!({"env": [{"value": "a"}]})),
            &[(REQUIRED, "spec.containers[0].env[0].name")],
        ),
        (
            "a mount of nothing",
            "/spec/containers",
            container(json!({"volumeMounts": [{"name": "v", "mountPath": "/v"}]})),
            &[("FieldValueNotFound", "spec.containers[0].volumeMounts[0].name")],
        ),
        (
            "a request above its limit",
            "/spec/containers",
            container(json!({"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}})),
            &[(INVALID, "spec.containers[0].resources.requests")],
        ),
        (
            "a request below zero",
            "/spec/containers",
            container(json!({"resources": {"requests": {"cpu": "-1"}}})),
            &[(INVALID, "spec.containers[0].resources.requests[cpu]")],
        ),
        (
            "a node selector",
            "/spec/nodeSelector",
            json!({"a b": "c"}),
            &[(INVALID, "spec.nodeSelector")],
        ),
        (
            "a toleration's operator",
            "/spec/tolerations",
            json!([{"key": "a", "operator": "Sometimes"}]),
            &[(UNSUPPORTED, "spec.tolerations[0].operator")],
        ),
        (
            "a toleration's value",
            "/spec/tolerations",
            json!([{"key": "a", "operator": "Exists", "value": "b"}]),
            &[(INVALID, "spec.tolerations[0].operator")],
        ),
        (
            "a node's name",
            "/spec/nodeName",
            json!("A_"),
            &[(INVALID, "spec.nodeName")],
        ),
        (
            "a host name",
            "/spec/hostname",
            json!("A_"),
            &[(INVALID, "spec.hostname")],
        ),
    ] {
        let object = but(&pod("a"), pointer, value);
        desk.refuses(what, post(desk.core("pods")).json(&object), 422, "Invalid", causes);
    }
}

#[test]
fn a_deployment_that_could_not_work_is_refused() {
    let desk = Desk::new();
    let deployments = desk.group("apps/v1", "deployments");
    for (what, pointer, value, causes) in [
        (
            "fewer than none",
            "/spec/replicas",
            json!(-1),
            &[(INVALID, "spec.replicas")][..],
        ),
        (
            "a selector for others",
            "/spec/selector/matchLabels",
            json!({"app": "other"}),
            &[(INVALID, "spec.template.metadata.labels")],
        ),
        (
            "no containers",
            "/spec/template/spec/containers",
            json!([]),
            &[(REQUIRED, "spec.template.spec.containers")],
        ),
        (
            "strategy",
            "/spec/strategy",
            json!({"type": "Sometimes"}),
            &[(UNSUPPORTED, "spec.strategy")],
        ),
        (
            "pods that end",
            "/spec/template/spec/restartPolicy",
            json!("Never"),
            &[(UNSUPPORTED, "spec.template.spec.restartPolicy")],
        ),
        (
            "no way to roll out",
            "/spec/strategy",
            json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
            &[(INVALID, "spec.strategy.rollingUpdate.maxUnavailable")],
        ),
    ] {
        let object = but(&deployment("web"), pointer, value);
        desk.refuses(what, post(&deployments).json(&object), 422, "Invalid", causes);
    }
    let mut object = deployment("web");
    object["spec"].as_object_mut().unwrap().remove("selector");
    let causes = [(REQUIRED, "spec.selector"), (INVALID, "spec.template.metadata.labels")];
    desk.refuses("no selector", post(&deployments).json(&object), 422, "Invalid", &causes);
}

#[test]
fn a_node_with_bad_cidrs_or_taints_is_refused() {
    let desk = Desk::new();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": unique("node")}, "spec": {}});
    for (what, spec, causes) in [
        (
            "not a CIDR",
            json!({"podCIDRs": ["10.0.0.0"]}),
            &[(INVALID, "spec.podCIDRs[0]")][..],
        ),
        (
            "one family twice",
            json!({"podCIDRs": ["10.0.0.0/24", "10.1.0.0/24"]}),
            &[(INVALID, "spec.podCIDRs")],
        ),
        (
            "three",
            json!({"podCIDRs": ["10.0.0.0/24", "fd00::/64", "fd01::/64"]}),
            &[(INVALID, "spec.podCIDRs")],
        ),
        (
            "no effect",
            json!({"taints": [{"key": "a"}]}),
            &[(REQUIRED, "metadata.taints[0].effect")],
        ),
        (
            "effect",
            json!({"taints": [{"key": "a", "effect": "b"}]}),
            &[(UNSUPPORTED, "metadata.taints[0].effect")],
        ),
        (
            "key",
            json!({"taints": [{"key": "a b", "effect": "NoSchedule"}]}),
            &[(INVALID, "metadata.taints[0].key")],
        ),
        (
            "twice",
            json!({"taints": [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}]}),
            &[(DUPLICATE, "metadata.taints[1]")],
        ),
    ] {
        let object = but(&node, "/spec", spec);
        desk.refuses(what, post("/api/v1/nodes").json(&object), 422, "Invalid", causes);
    }
}

#[test]
fn data_with_bad_keys_or_above_1_mib_is_refused() {
    let desk = Desk::new();
    let maps = desk.core("configmaps");
    for key in ["a b", "..", "a/b", &"a".repeat(254)] {
        let object = but(&config_map("a"), "/data", json!({key: "x"}));
        let at = format!("data[{key}]");
        desk.refuses(key, post(&maps).json(&object), 422, "Invalid", &[(INVALID, &at)]);
    }
    let object = but(&config_map("a"), "/binaryData", json!({"a": "eA=="}));
    desk.refuses(
        "in both",
        post(&maps).json(&object),
        422,
        "Invalid",
        &[(INVALID, "data[a]")],
    );
    let object = but(&config_map("a"), "/data/a", json!("x".repeat((1 << 20) + 1)));
    desk.refuses(
        "too large",
        post(&maps).json(&object),
        422,
        "Invalid",
        &[("FieldValueTooLong", "[]")],
    );
    let secret = |kind: &str, data: serde_json::Value| {
        let object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "type": kind, "data": data});
        post(desk.core("secrets")).json(&object)
    };
    let docker = secret("kubernetes.io/dockerconfigjson", json!({}));
    desk.refuses(
        "a docker secret",
        docker,
        422,
        "Invalid",
        &[(REQUIRED, "data[.dockerconfigjson]")],
    );
    let tls = secret("kubernetes.io/tls", json!({}));
    let causes = [(REQUIRED, "data[tls.crt]"), (REQUIRED, "data[tls.key]")];
    desk.refuses("a TLS secret", tls, 422, "Invalid", &causes);
}

#[test]
fn a_service_without_usable_ports_is_refused() {
    let desk = Desk::new();
    let service = json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a"},
        "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
    });
    for (what, pointer, value, causes) in [
        (
            "port 0",
            "/spec/ports",
            json!([{"port": 0, "targetPort": 1}]),
            &[(INVALID, "spec.ports[0].port")][..],
        ),
        (
            "a port out of range",
            "/spec/ports",
            json!([{"port": 70000}]),
            &[(INVALID, "spec.ports[0].port"), (INVALID, "spec.ports[0].targetPort")],
        ),
        (
            "two without names",
            "/spec/ports",
            json!([{"port": 80}, {"port": 81}]),
            &[(REQUIRED, "spec.ports[0].name"), (REQUIRED, "spec.ports[1].name")],
        ),
        ("type", "/spec/type", json!("Sometimes"), &[(UNSUPPORTED, "spec.type")]),
        (
            "a selector",
            "/spec/selector",
            json!({"a": "b c"}),
            &[(INVALID, "spec.selector")],
        ),
        (
            "affinity",
            "/spec/sessionAffinity",
            json!("Sometimes"),
            &[(UNSUPPORTED, "spec.sessionAffinity")],
        ),
    ] {
        let object = but(&service, pointer, value);
        desk.refuses(what, post(desk.core("services")).json(&object), 422, "Invalid", causes);
    }
}

#[test]
fn a_lease_or_role_that_says_nothing_is_refused() {
    let desk = Desk::new();
    let rule = |rule: serde_json::Value| {
        let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "a"}, "rules": [rule]});
        post(desk.group("rbac.authorization.k8s.io/v1", "roles")).json(&role)
    };
    let nothing = rule(json!({"verbs": ["get"]}));
    let causes = [(REQUIRED, "rules[0].apiGroups"), (REQUIRED, "rules[0].resources")];
    desk.refuses("a rule about nothing", nothing, 422, "Invalid", &causes);
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "a"},
        "spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1},
    });
    let causes = [
        (INVALID, "spec.leaseDurationSeconds"),
        (INVALID, "spec.leaseTransitions"),
    ];
    let leases = desk.group("coordination.k8s.io/v1", "leases");
    desk.refuses("lease", post(leases).json(&lease), 422, "Invalid", &causes);
    let rbac = "rbac.authorization.k8s.io/v1";
    let role = json!({
        "apiVersion": rbac,
        "kind": "Role",
        "metadata": {"name": "a"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": []}],
    });
    desk.refuses(
        "role",
        post(desk.group(rbac, "roles")).json(&role),
        422,
        "Invalid",
        &[(REQUIRED, "rules[0].verbs")],
    );
    let binding = json!({
        "apiVersion": rbac,
        "kind": "RoleBinding",
        "metadata": {"name": "a"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "House", "name": "r"},
    });
    let bindings = desk.group(rbac, "rolebindings");
    desk.refuses(
        "no role",
        post(&bindings).json(&binding),
        422,
        "Invalid",
        &[(UNSUPPORTED, "roleRef.kind")],
    );
    let nobody = but(
        &binding,
        "/subjects",
        json!([{"kind": "ServiceAccount", "namespace": "x"}]),
    );
    let nobody = but(&nobody, "/roleRef/kind", json!("Role"));
    desk.refuses(
        "nobody",
        post(&bindings).json(&nobody),
        422,
        "Invalid",
        &[(REQUIRED, "subjects[0].name")],
    );
}
