//! What is added to new objects alone: the work of admission plugins and of strategies at creation.

use serde_json::{Value, json};

use crate::kinds::Kind;

pub fn admit(kind: &Kind, object: &mut Value) {
    match kind.kind.as_str() {
        "Namespace" => {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
            object["status"] = json!({"phase": "Active"});
        }
        "Pod" => pod(object),
        "Service" if object["spec"]["type"] != "ExternalName" => service(&mut object["spec"]),
        _ => {}
    }
    if kind.status && kind.custom.is_none() && object["status"].is_null() {
        object["status"] = first_status(&kind.kind);
    }
}

/// Nothing here carries a Service's traffic, so no address is given that would lead nowhere.
fn service(spec: &mut Value) {
    let address = if spec["clusterIP"].is_string() {
        spec["clusterIP"].clone()
    } else {
        "None".into()
    };
    // Without a selector nothing says which families its endpoints have.
    let (families, policy) = if spec["selector"].is_null() {
        (json!(["IPv4", "IPv6"]), "RequireDualStack")
    } else {
        (json!(["IPv4"]), "SingleStack")
    };
    for (field, value) in [
        ("clusterIPs", json!([address])),
        ("clusterIP", address),
        ("ipFamilies", families),
        ("ipFamilyPolicy", policy.into()),
    ] {
        if spec[field].is_null() {
            spec[field] = value;
        }
    }
}

/// What a status says before anybody has said anything.
fn first_status(kind: &str) -> Value {
    match kind {
        "Service" => json!({"loadBalancer": {}}),
        "ReplicaSet" => json!({"replicas": 0}),
        "DaemonSet" => json!({
            "currentNumberScheduled": 0,
            "desiredNumberScheduled": 0,
            "numberMisscheduled": 0,
            "numberReady": 0,
        }),
        "Node" => json!({
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": {
                "architecture": "",
                "bootID": "",
                "containerRuntimeVersion": "",
                "kernelVersion": "",
                "kubeProxyVersion": "",
                "kubeletVersion": "",
                "machineID": "",
                "operatingSystem": "",
                "osImage": "",
                "systemUUID": "",
            },
        }),
        _ => json!({}),
    }
}

fn pod(object: &mut Value) {
    let spec = &mut object["spec"];
    if spec["serviceAccountName"].as_str().unwrap_or_default().is_empty() {
        spec["serviceAccountName"] = "default".into();
    }
    spec["serviceAccount"] = spec["serviceAccountName"].clone();
    for (field, value) in [
        ("priority", json!(0)),
        ("preemptionPolicy", json!("PreemptLowerPriority")),
    ] {
        if spec[field].is_null() {
            spec[field] = value;
        }
    }
    let class = quality(spec);
    object["status"] = json!({"phase": "Pending", "qosClass": class});
    readmit_pod(object);
}

/// The same for every later change too.
pub fn readmit(kind: &Kind, object: &mut Value) {
    if kind.is("", "Pod") {
        readmit_pod(object);
    }
}

/// Every pod tolerates for a while that its node is away.
fn readmit_pod(object: &mut Value) {
    let spec = &mut object["spec"];
    let mut tolerations: Vec<Value> = spec["tolerations"].as_array().cloned().unwrap_or_default();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = tolerations.iter().any(|toleration| {
            let all = toleration["key"].as_str().unwrap_or_default().is_empty();
            let effect = toleration["effect"].as_str().unwrap_or_default();
            (all || toleration["key"] == key) && (effect.is_empty() || effect == "NoExecute")
        });
        if !tolerated {
            tolerations
                .push(json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}));
        }
    }
    spec["tolerations"] = tolerations.into();
}

/// The quality-of-service class, from requests and limits.
fn quality(spec: &Value) -> &'static str {
    let containers = ["containers", "initContainers"]
        .iter()
        .flat_map(|field| spec[*field].as_array().into_iter().flatten());
    let mut any = false;
    let mut guaranteed = true;
    for container in containers {
        let (requests, limits) = (&container["resources"]["requests"], &container["resources"]["limits"]);
        for resource in ["cpu", "memory"] {
            any |= !requests[resource].is_null() || !limits[resource].is_null();
            guaranteed &= !limits[resource].is_null() && requests[resource] == limits[resource];
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quality_follows_requests_and_limits() {
        let with = |resources: Value| json!({"containers": [{"resources": resources}]});
        assert_eq!(quality(&with(json!({}))), "BestEffort");
        assert_eq!(quality(&with(json!({"requests": {"cpu": "1"}}))), "Burstable");
        let both = json!({"cpu": "1", "memory": "1Gi"});
        assert_eq!(quality(&with(json!({"requests": both, "limits": both}))), "Guaranteed");
    }
}
