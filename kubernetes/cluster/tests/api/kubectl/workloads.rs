//! Deployments on nodes that live: pods are made, placed, moved and removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use berth_testkit::until_so;
use serde_json::{Value, json};

use super::{Kubectl, each, row};
use crate::request::{get, patch};
use crate::target::{Capability, target};

/// Gives every pod of a namespace an address, as a network would. Ends with this value.
struct Network {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Network {
    fn of(kubectl: &Kubectl) -> Option<Self> {
        if !target().can(Capability::VirtualPods) {
            return None;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (pods, stopped) = (kubectl.core("pods"), stop.clone());
        let thread = std::thread::spawn(move || {
            let mut next = 0_u32;
            while !stopped.load(Ordering::Relaxed) {
                for pod in get(&pods).send().expect(200)["items"].as_array().into_iter().flatten() {
                    if pod["spec"]["nodeName"].is_string() && pod["status"]["podIPs"].is_null() {
                        next += 1;
                        let address = format!("10.64.{}.{}", next / 250, next % 250 + 1);
                        let status =
                            json!({"status": {"podIP": address, "podIPs": [{"ip": address}]}});
                        let path =
                            format!("{pods}/{}/status", pod["metadata"]["name"].as_str().unwrap());
                        // It may have gone meanwhile.
                        patch(path).of_type("merge", &status).send();
                    }
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Some(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// A Deployment whose pods real nodes can run too: of an image that they have and that ends when it
/// is told to.
fn make(kubectl: &Kubectl, replicas: u32) {
    // A label of its own: pods of other tests stay where they are.
    let labels = json!({"app": kubectl.name});
    let container = json!({"name": "c", "image": target().image, "imagePullPolicy": "Never"});
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"terminationGracePeriodSeconds": 5, "containers": [container]},
            },
        },
    });
    kubectl.fed(&deployment.to_string(), "create -f -");
}

fn pods(kubectl: &Kubectl) -> Vec<Value> {
    let list = get(kubectl.core("pods")).send().expect(200);
    let items = list["items"].as_array().cloned().unwrap_or_default();
    items
        .into_iter()
        .filter(|pod| pod["metadata"]["deletionTimestamp"].is_null())
        .collect()
}

fn nodes_of(pods: &[Value]) -> Vec<&str> {
    pods.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).collect()
}

fn has_env(pod: &Value, value: &str) -> bool {
    pod["spec"]["containers"][0]["env"] == json!([{"name": "STEP", "value": value}])
}

#[test]
fn every_node_is_ready_and_has_an_address() {
    if !target().has(Capability::Nodes) {
        return;
    }
    each(|kubectl| {
        let leases = kubectl.ok("get leases -n kube-node-lease -o name");
        let names: Vec<&str> = leases.lines().filter_map(|line| line.split('/').nth(1)).collect();
        assert!(!names.is_empty());
        let table = kubectl.ok("get nodes -o wide");
        for name in names {
            let cells = row(&table, name);
            assert!(cells[1].starts_with("Ready"), "{table}");
            assert_ne!(cells[5], "<none>", "{table}");
        }
    });
}

#[test]
fn a_deployment_of_20_gets_20_pods_on_nodes() {
    if !target().has(Capability::Nodes) {
        return;
    }
    each(|kubectl| {
        make(kubectl, 20);
        until_so("20 pods have a node", || nodes_of(&pods(kubectl)).len() == 20);
        let selector = format!("app={}", kubectl.name);
        let listed = kubectl.ok(["get", "pods", "-l", &selector, "-o", "wide", "--no-headers"]);
        assert_eq!(listed.lines().count(), 20);
        // It is told of later than it happens.
        until_so("an event says where a pod was placed", || {
            let events = kubectl.ok("get events --field-selector reason=Scheduled --no-headers");
            events.contains("Successfully assigned")
        });
    });
}

#[test]
fn a_deployment_is_rolled_out_scaled_and_removed() {
    if !target().has(Capability::RunningPods) {
        return;
    }
    each(|kubectl| {
        let _network = Network::of(kubectl);
        make(kubectl, 4);
        let said = kubectl.ok("rollout status deployment web --timeout=300s");
        assert!(said.contains("deployment \"web\" successfully rolled out"), "{said}");
        let table = kubectl.ok("get deployment web");
        assert_eq!(row(&table, "web")[1..4], ["4/4", "4", "4"]);
        kubectl.ok("wait --for=condition=Available deployment/web --timeout=300s");
        kubectl.ok("wait --for=condition=Ready pods --all --timeout=300s");
        kubectl.ok("scale deployment web --replicas=2");
        until_so("2 pods are left", || pods(kubectl).len() == 2);

        kubectl.ok("set env deployment/web STEP=2");
        kubectl.ok("rollout status deployment web --timeout=300s");
        until_so("all pods are new", || {
            let pods = pods(kubectl);
            pods.len() == 2 && pods.iter().all(|pod| has_env(pod, "2"))
        });
        kubectl.ok("rollout undo deployment web");
        kubectl.ok("rollout status deployment web --timeout=300s");
        until_so("all pods are as before", || {
            let pods = pods(kubectl);
            pods.len() == 2 && !pods.iter().any(|pod| has_env(pod, "2"))
        });

        kubectl.ok("delete deployment web");
        until_so("no pod is left", || {
            get(kubectl.core("pods")).send().expect(200)["items"] == json!([])
        });
    });
}

#[test]
fn a_drained_node_loses_its_pods_to_other_nodes() {
    if !target().has(Capability::Nodes) {
        return;
    }
    each(|kubectl| {
        let _network = Network::of(kubectl);
        make(kubectl, 6);
        until_so("6 pods have a node", || nodes_of(&pods(kubectl)).len() == 6);
        let node = nodes_of(&pods(kubectl))[0].to_owned();
        let selector = format!("--pod-selector=app={}", kubectl.name);
        let drained =
            kubectl.ok(["drain", &node, "--ignore-daemonsets", &selector, "--timeout=300s"]);
        assert!(drained.contains("evicted") && drained.contains("drained"), "{drained}");
        until_so("6 pods are on other nodes", || {
            let pods = pods(kubectl);
            let nodes = nodes_of(&pods);
            nodes.len() == 6 && !nodes.contains(&node.as_str())
        });
        kubectl.ok(["uncordon", &node]);
    });
}

#[test]
fn describe_shows_a_living_node_with_its_lease_and_pods() {
    if !target().has(Capability::Nodes) {
        return;
    }
    each(|kubectl| {
        make(kubectl, 1);
        until_so("the pod has a node", || nodes_of(&pods(kubectl)).len() == 1);
        let pod = pods(kubectl).remove(0);
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str).unwrap().to_owned();
        let (name, node) = (text("/metadata/name"), text("/spec/nodeName"));
        let described = kubectl.ok(["describe", "node", &node]);
        let lease = described.split("Lease:").nth(1).unwrap_or_default();
        assert!(
            lease.contains("RenewTime:") && !lease.contains("RenewTime:       <unset>"),
            "{described}"
        );
        let mine = described.lines().any(|line| {
            line.split_whitespace()
                .take(2)
                .eq([kubectl.name.as_str(), name.as_str()])
        });
        assert!(mine, "{described}");
        until_so("the pod's events say where it was placed", || {
            kubectl.ok(["describe", "pod", &name]).contains("Successfully assigned")
        });
    });
}
