//! The objects for the seed cluster and for the user cluster. Pure.

use berth_api::crds;
use berth_api::machines::flag::NetworkFlag;
use serde_json::{Value, json};

use super::{KUBECONFIG_KEY, KUBECONFIG_SECRET};
use crate::gate;

const NAME: &str = "machine-ipam";
const METRICS_PORT: u16 = 8085;
const MOUNT: &str = "/etc/kubernetes/kubeconfig";

/// On the Deployment: its CIDRs, separated by commas. CIDRs that are listed here may be in use.
pub const NETWORKS: &str = "berth.dev/machine-networks";

/// The objects for a Cluster with networks. `owner` is a reference to it.
pub fn seed_manifests(
    namespace: &str,
    owner: &Value,
    networks: &[NetworkFlag],
    image: &str,
) -> Vec<Value> {
    if networks.is_empty() {
        return Vec::new();
    }
    let labels = json!({"app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": "berth"});
    let metadata = json!({
        "name": NAME, "namespace": namespace, "labels": labels, "ownerReferences": [owner],
    });
    // No role is bound to it, and no token is mounted: it talks to the user cluster alone.
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata,
        "automountServiceAccountToken": false,
    });
    let mut deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata,
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app.kubernetes.io/name": NAME}},
            "template": {"metadata": {"labels": labels}, "spec": pod(networks, image)},
        },
    });
    let cidrs: Vec<String> = networks.iter().map(|network| network.cidr.to_string()).collect();
    deployment["metadata"]["annotations"] = json!({NETWORKS: cidrs.join(",")});
    vec![account, deployment]
}

fn pod(networks: &[NetworkFlag], image: &str) -> Value {
    let mut arguments = vec![
        "machine-ipam".to_owned(),
        format!("--kubeconfig={MOUNT}/{KUBECONFIG_KEY}"),
        format!("--metrics-listen=0.0.0.0:{METRICS_PORT}"),
    ];
    arguments.extend(networks.iter().map(|network| format!("--network={network}")));
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": METRICS_PORT}});
    json!({
        "serviceAccountName": NAME,
        "automountServiceAccountToken": false,
        "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
            "name": NAME,
            "image": image,
            "args": arguments,
            "ports": [{"name": "metrics", "containerPort": METRICS_PORT}],
            "livenessProbe": probe("/healthz"),
            "readinessProbe": probe("/readyz"),
            "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [{"name": "kubeconfig", "mountPath": MOUNT, "readOnly": true}],
        }],
        "volumes": [{"name": "kubeconfig", "secret": {"secretName": KUBECONFIG_SECRET}}],
    })
}

/// Our CRDs, the rights of machine IPAM, and the gate last: from then on Machines wait for it.
pub fn user_manifests() -> Result<Vec<Value>, String> {
    const RIGHTS: &str = include_str!("../../../../deploy/machines/rbac.yaml");
    let ours = ["subnets", "addressblocks"];
    let mut manifests = Vec::new();
    for crd in crds::all()
        .iter()
        .filter(|crd| ours.contains(&crd.spec.names.plural.as_str()))
    {
        let mut value = serde_json::to_value(crd).map_err(|error| error.to_string())?;
        value["apiVersion"] = "apiextensions.k8s.io/v1".into();
        value["kind"] = "CustomResourceDefinition".into();
        manifests.push(value);
    }
    for documents in [RIGHTS, gate::POLICY] {
        let read: Vec<Value> =
            serde_saphyr::from_multiple(documents).map_err(|error| error.to_string())?;
        manifests.extend(read);
    }
    Ok(manifests)
}
