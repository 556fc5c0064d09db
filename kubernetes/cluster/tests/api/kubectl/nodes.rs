//! Nodes: cordon, drain, taint, describe. The node is the test's own object, so nothing else is
//! ever placed on it.

use serde_json::{Value, json};

use super::{Kubectl, each, row};
use crate::namespace::unique;
use crate::request::{get, patch, post};

fn node(kubectl: &Kubectl) -> String {
    tainted_node(kubectl, &json!([]))
}

fn tainted_node(kubectl: &Kubectl, taints: &Value) -> String {
    let name = unique("node");
    let path = format!("/api/v1/nodes/{name}");
    kubectl.with(&path);
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"node-role.kubernetes.io/worker": "", "of": kubectl.name}},
        "spec": {"podCIDR": "10.9.0.0/24", "podCIDRs": ["10.9.0.0/24"], "taints": taints},
    });
    post("/api/v1/nodes").json(&node).send().expect(201);
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": name}],
        "capacity": {"cpu": "0", "memory": "0", "pods": "0"},
        "allocatable": {"cpu": "0", "memory": "0", "pods": "0"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": "claims to be ready"}],
        "nodeInfo": {
            "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "none://1", "kernelVersion": "6.0", "kubeProxyVersion": "",
            "kubeletVersion": "v1.36.0", "machineID": "", "operatingSystem": "linux", "osImage": "Test", "systemUUID": "",
        },
    }});
    patch(format!("{path}/status"))
        .of_type("strategic", &status)
        .send()
        .expect(200);
    name
}

fn pod_on(kubectl: &Kubectl, node: &str, metadata: Value) {
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "x"}]},
    });
    kubectl.have(&kubectl.core("pods"), &pod);
}

#[test]
fn get_nodes_shows_roles_version_and_addresses() {
    each(|kubectl| {
        let name = node(kubectl);
        let table = kubectl.ok(["get", "node", &name]);
        let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(head, ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]);
        let cells = row(&table, &name);
        assert_eq!((cells[1], cells[2], cells[4]), ("Ready", "worker", "v1.36.0"));
        let wide = kubectl.ok(["get", "node", &name, "-o", "wide"]);
        for part in [
            "INTERNAL-IP",
            "192.0.2.1",
            "OS-IMAGE",
            "KERNEL-VERSION",
            "6.0",
            "CONTAINER-RUNTIME",
            "none://1",
        ] {
            assert!(wide.contains(part), "{part} is not in\n{wide}");
        }
    });
}

#[test]
fn cordon_and_uncordon_close_and_open_a_node() {
    each(|kubectl| {
        let name = node(kubectl);
        assert_eq!(kubectl.ok(["cordon", &name]), format!("node/{name} cordoned\n"));
        assert_eq!(kubectl.ok(["cordon", &name]), format!("node/{name} already cordoned\n"));
        assert_eq!(
            row(&kubectl.ok(["get", "node", &name]), &name)[1],
            "Ready,SchedulingDisabled"
        );
        assert_eq!(kubectl.json(&format!("get node {name}"))["spec"]["unschedulable"], true);
        assert_eq!(kubectl.ok(["uncordon", &name]), format!("node/{name} uncordoned\n"));
        assert_eq!(
            kubectl.json(&format!("get node {name}"))["spec"].get("unschedulable"),
            None
        );
    });
}

#[test]
fn taint_adds_and_removes_taints() {
    each(|kubectl| {
        let name = node(kubectl);
        kubectl.ok(["taint", "node", &name, "key=value:NoSchedule"]);
        let taints = || {
            kubectl.json(&format!("get node {name}"))["spec"]["taints"]
                .as_array()
                .cloned()
                .unwrap_or_default()
        };
        assert!(
            taints().contains(&json!({"key": "key", "value": "value", "effect": "NoSchedule"}))
        );
        kubectl.ok(["taint", "node", &name, "key-"]);
        assert!(!taints().iter().any(|taint| taint["key"] == "key"));
    });
}

#[test]
fn drain_evicts_the_pods_of_a_node_and_minds_the_unmanaged_ones() {
    each(|kubectl| {
        let name = node(kubectl);
        pod_on(kubectl, &name, json!({"name": "bare"}));
        let refused = kubectl.fails(["drain", &name]);
        assert!(
            refused.contains("cannot delete") && refused.contains("bare"),
            "{refused}"
        );
        assert_eq!(get(kubectl.core("pods/bare")).send().code, 200);
        let drained = kubectl.ok(["drain", &name, "--force", "--grace-period=0", "--timeout=300s"]);
        assert!(
            drained.contains("pod/bare evicted")
                && drained.contains(&format!("node/{name} drained")),
            "{drained}"
        );
        assert_eq!(get(kubectl.core("pods/bare")).send().code, 404);
        assert_eq!(kubectl.json(&format!("get node {name}"))["spec"]["unschedulable"], true);
    });
}

#[test]
fn drain_leaves_daemons_alone_when_told_to() {
    each(|kubectl| {
        // Where a taint keeps a controller from making a daemon, one that is there by hand may
        // stay.
        let name = tainted_node(kubectl, &json!([{"key": "closed", "effect": "NoSchedule"}]));
        let set = json!({
            "apiVersion": "apps/v1",
            "kind": "DaemonSet",
            "metadata": {"name": "d"},
            "spec": {
                "selector": {"matchLabels": {"app": "d"}},
                "updateStrategy": {"type": "OnDelete"},
                "template": {
                    "metadata": {"labels": {"app": "d"}},
                    "spec": {"nodeSelector": {"of": kubectl.name}, "containers": [{"name": "c", "image": "x"}]},
                },
            },
        });
        let set = kubectl.have(&kubectl.group("apps/v1", "daemonsets"), &set);
        let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": set["metadata"]["uid"], "controller": true});
        pod_on(
            kubectl,
            &name,
            json!({"name": "daemon", "labels": {"app": "d"}, "ownerReferences": [owner]}),
        );
        let refused = kubectl.fails(["drain", &name]);
        assert!(refused.contains("DaemonSet-managed"), "{refused}");
        let drained = kubectl.run(["drain", &name, "--ignore-daemonsets"], "", &[]);
        assert_eq!(drained.code, 0, "{}", drained.err);
        let daemon = get(kubectl.core("pods/daemon")).send().expect(200);
        assert_eq!(daemon["metadata"].get("deletionTimestamp"), None);
    });
}

#[test]
fn describe_node_shows_addresses_cidrs_conditions_and_pods() {
    each(|kubectl| {
        let name = node(kubectl);
        pod_on(kubectl, &name, json!({"name": "p"}));
        let described = kubectl.ok(["describe", "node", &name]);
        for part in [
            "Roles:",
            "worker",
            "InternalIP:  192.0.2.1",
            "claims to be ready",
            "10.9.0.0/24",
            "Non-terminated Pods:",
            "(1 in total)",
            "Allocated resources:",
            "Events:",
        ] {
            assert!(described.contains(part), "{part:?} is not in\n{described}");
        }
        kubectl.ok("delete pod p --force --grace-period=0");
    });
}
