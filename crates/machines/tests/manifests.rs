//! The manifests of the cluster controller against golden files: `BERTH_GOLDEN=write` writes them
//! again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::Path;

use berth_machines::cluster::{networks, seed_manifests, user_manifests};
use serde_json::{Value, json};

fn check(name: &str, documents: &[Value]) {
    let texts: Vec<String> = documents
        .iter()
        .map(|document| serde_saphyr::to_string(document).unwrap())
        .collect();
    let text = texts.join("---\n");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var("BERTH_GOLDEN").is_ok_and(|value| value == "write") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &text).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert_eq!(
        text, golden,
        "{name} is not as it was: BERTH_GOLDEN=write writes it again"
    );
}

fn seed(spec: Value) -> Vec<Value> {
    let networks = networks(&json!({"spec": spec})).unwrap();
    let owner = json!({"apiVersion": "kubermatic.k8s.io/v1", "kind": "Cluster", "name": "8scc6wc6wb", "uid": "u"});
    seed_manifests("cluster-8scc6wc6wb", &owner, &networks, "berth:test")
}

#[test]
fn no_network_has_no_manifests() {
    assert!(seed(json!({})).is_empty());
}

#[test]
fn one_cidr() {
    check(
        "one.yaml",
        &seed(
            json!({"machineNetwork": {"cidrBlocks": ["192.168.1.128/25"], "gateway": "192.168.1.1", "dnsServers": ["192.168.1.1"]}}),
        ),
    );
}

#[test]
fn several_cidrs() {
    check(
        "several.yaml",
        &seed(json!({"machineNetworks": [
            {"cidr": "192.168.1.128/25", "gateway": "192.168.1.1", "dnsServers": ["192.168.1.1", "192.168.1.2"]},
            {"cidr": "10.0.0.0/16", "gateway": "10.0.0.1", "dnsServers": ["10.0.0.53"]},
        ]})),
    );
}

#[test]
fn cidrs_of_both_families() {
    check(
        "families.yaml",
        &seed(json!({"machineNetwork": {
            "cidrBlocks": ["10.0.0.0/24", "fd00::/64"], "gateway": "10.0.0.1", "dnsServers": ["10.0.0.53", "fd00::53"],
        }})),
    );
}

#[test]
fn the_user_cluster_gets_crds_rights_and_the_gate_last() {
    let manifests = user_manifests().unwrap();
    let kinds: Vec<&str> = manifests
        .iter()
        .map(|manifest| manifest["kind"].as_str().unwrap())
        .collect();
    let expected = [
        "CustomResourceDefinition",
        "CustomResourceDefinition",
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    ];
    assert_eq!(kinds, expected);
    check("user.yaml", &manifests[2..]);
}
