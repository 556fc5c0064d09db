//! An object of every kind that is served, such that no controller has anything to do with it for
//! long.

use serde_json::{Value, json};

pub struct Sample {
    /// `plural.group`, as kubectl takes it.
    pub resource: String,
    pub object: Value,
    /// Its path, where the test's namespace does not hold it.
    pub outside: Option<String>,
}

impl Sample {
    /// `plural.version.group/name`: versions are said because Events are in two groups.
    pub fn reference(&self) -> String {
        let version = self.object["apiVersion"].as_str().unwrap();
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let plural = self.resource.split('.').next().unwrap();
        let name = self.object["metadata"]["name"].as_str().unwrap();
        format!("{plural}.{version}.{group}/{name}")
    }
}

const CONTAINER: &str = r#"{"containers": [{"name": "c", "image": "x"}]}"#;

/// All of this name, to be made in this namespace. Definitions are told apart by the name too.
pub fn samples(namespace: &str, name: &str) -> Vec<Sample> {
    let pod: Value = serde_json::from_str(CONTAINER).unwrap();
    let template = json!({"metadata": {"labels": {"app": name}}, "spec": pod});
    let mut nowhere = template.clone();
    nowhere["spec"]["nodeSelector"] = json!({"berth.dev/nowhere": "true"});
    // Nobody schedules it, so that nothing has to end before it can go.
    let mut unscheduled = pod.clone();
    unscheduled["schedulerName"] = "nobody".into();
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = "Never".into();
    let selector = json!({"matchLabels": {"app": name}});
    let rules = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
    let role = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "nobody"});
    let time = "2026-01-02T03:04:05.000000Z";
    let about =
        json!({"apiVersion": "v1", "kind": "Pod", "name": "nobody", "namespace": namespace});
    let (rbac, admission) = ("rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1");
    let plural = format!("sample{}", name.replace('-', ""));
    let mut all = vec![
        inside(
            "v1",
            "ConfigMap",
            "configmaps",
            json!({"data": {"a": "1", "b": "x: y\n"}}),
        ),
        inside("v1", "Secret", "secrets", json!({"stringData": {"a": "1"}})),
        inside("v1", "ServiceAccount", "serviceaccounts", json!({})),
        inside("v1", "Pod", "pods", json!({"spec": unscheduled})),
        inside(
            "v1",
            "Service",
            "services",
            json!({"spec": {"clusterIP": "None", "selector": {"app": name}, "ports": [{"port": 80, "targetPort": "web"}]}}),
        ),
        inside(
            "v1",
            "Event",
            "events",
            json!({"involvedObject": about, "reason": "Tested", "message": "m", "type": "Normal"}),
        ),
        inside(
            "events.k8s.io/v1",
            "Event",
            "events",
            json!({
                // The two groups show the same objects.
                "metadata": {"name": format!("{name}-newer")},
                "regarding": about, "reason": "Tested", "action": "Test", "note": "n", "type": "Normal",
                "eventTime": time, "reportingController": "berth.dev/test", "reportingInstance": "test",
            }),
        ),
        inside(
            "batch/v1",
            "Job",
            "jobs",
            json!({"spec": {"suspend": true, "manualSelector": true, "selector": selector, "template": once}}),
        ),
        inside(
            "apps/v1",
            "Deployment",
            "deployments",
            json!({"spec": {"replicas": 0, "selector": selector, "template": template}}),
        ),
        inside(
            "apps/v1",
            "ReplicaSet",
            "replicasets",
            json!({"spec": {"replicas": 0, "selector": selector, "template": template}}),
        ),
        inside(
            "apps/v1",
            "DaemonSet",
            "daemonsets",
            json!({"spec": {"selector": selector, "template": nowhere}}),
        ),
        inside(
            "coordination.k8s.io/v1",
            "Lease",
            "leases",
            json!({"spec": {"holderIdentity": "h", "leaseDurationSeconds": 15, "renewTime": time}}),
        ),
        inside(rbac, "Role", "roles", json!({"rules": rules})),
        inside(
            rbac,
            "RoleBinding",
            "rolebindings",
            json!({"roleRef": role("Role"), "subjects": [{"kind": "ServiceAccount", "name": "nobody"}]}),
        ),
        outside(rbac, "ClusterRole", "clusterroles", json!({"rules": rules})),
        outside(
            rbac,
            "ClusterRoleBinding",
            "clusterrolebindings",
            json!({"roleRef": role("ClusterRole"), "subjects": [{"kind": "User", "name": "nobody"}]}),
        ),
        outside("v1", "Namespace", "namespaces", json!({})),
        outside("v1", "Node", "nodes", json!({"spec": {"unschedulable": true}})),
        outside(
            "networking.k8s.io/v1",
            "ServiceCIDR",
            "servicecidrs",
            json!({"spec": {"cidrs": ["192.0.2.64/28"]}}),
        ),
        outside(
            admission,
            "ValidatingAdmissionPolicy",
            "validatingadmissionpolicies",
            policy(),
        ),
        outside(
            admission,
            "ValidatingAdmissionPolicyBinding",
            "validatingadmissionpolicybindings",
            json!({"spec": {"policyName": "nobody", "validationActions": ["Audit"]}}),
        ),
        outside(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            "customresourcedefinitions",
            definition(&plural),
        ),
        inside(
            "acn.azure.com/v1alpha",
            "NodeNetworkConfig",
            "nodenetworkconfigs",
            json!({"spec": {"requestedIPCount": 16, "ipsNotInUse": []}}),
        ),
        inside(
            "acn.azure.com/v1alpha1",
            "ClusterSubnetState",
            "clustersubnetstates",
            json!({"status": {"exhausted": false, "timestamp": "t"}}),
        ),
        outside(
            "berth.dev/v1alpha1",
            "Subnet",
            "subnets",
            json!({"spec": {"cidrs": ["198.51.100.0/24"]}}),
        ),
        outside(
            "berth.dev/v1alpha1",
            "AddressBlock",
            "addressblocks",
            json!({"spec": {
                "subnet": "nobody", "first": "198.51.100.0/32",
                "owned": {"1": {"owner": "o", "lease": "l"}}, "released": {"2": time},
            }}),
        ),
    ];
    for sample in &mut all {
        let known = sample.object["metadata"]["name"].as_str().map(str::to_owned);
        let name = known.unwrap_or_else(|| name.to_owned());
        sample.object["metadata"]["name"] = name.as_str().into();
        if let Some(path) = &mut sample.outside {
            path.push_str(&name);
        }
    }
    all
}

fn policy() -> Value {
    json!({"spec": {
        "failurePolicy": "Ignore",
        "matchConstraints": {"resourceRules": [{
            "apiGroups": ["example.berth.dev"], "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"], "resources": ["nothings"],
        }]},
        "variables": [{"name": "there", "expression": "has(object.spec)"}],
        "validations": [{"expression": "variables.there", "message": "m", "reason": "Forbidden"}],
    }})
}

/// With a bit of all that a schema can say, since the schema itself goes back too.
fn definition(plural: &str) -> Value {
    let schema = json!({
        "type": "object",
        "properties": {"spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "default": 3},
                "either": {"x-kubernetes-int-or-string": true},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "maybe": {"type": "string", "nullable": true, "enum": ["a", "b"]},
                "parts": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            },
            "x-kubernetes-validations": [{"rule": "self.size < 9", "message": "too large"}],
        }},
    });
    let kind = plural.replacen('s', "S", 1);
    json!({
        "metadata": {"name": format!("{plural}.round.berth.dev")},
        "spec": {
            "group": "round.berth.dev",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": plural, "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

fn inside(version: &str, kind: &str, plural: &str, object: Value) -> Sample {
    sample(version, kind, plural, object, None)
}

fn outside(version: &str, kind: &str, plural: &str, object: Value) -> Sample {
    let root = if version.contains('/') { "/apis" } else { "/api" };
    let path = format!("{root}/{version}/{plural}/");
    sample(version, kind, plural, object, Some(path))
}

fn sample(
    version: &str,
    kind: &str,
    plural: &str,
    mut object: Value,
    outside: Option<String>,
) -> Sample {
    object["apiVersion"] = version.into();
    object["kind"] = kind.into();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    Sample {
        resource: format!("{plural}.{group}").trim_end_matches('.').to_owned(),
        object,
        outside,
    }
}
