//! Deployments on nodes that live: pods are made, placed, moved and removed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Kubectl, each, row};
use crate::request::{get, patch, until};
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
                        let status = json!({"status": {"podIP": address, "podIPs": [{"ip": address}]}});
                        let path = format!("{pods}/{}/status", pod["metadata"]["name"].as_str().unwrap());
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
        kubectl.ok("create deployment web --image=x --replicas=20");
        until("20 pods have a node", || nodes_of(&pods(kubectl)).len() == 20);
        let found = pods(kubectl);
        let mut nodes = nodes_of(&found);
        nodes.sort_unstable();
        nodes.dedup();
        let all = kubectl.ok("get nodes -o name").lines().count();
        assert!(nodes.len() > 1 || all == 1, "all pods are on {nodes:?}");
        let listed = kubectl.ok("get pods -l app=web -o wide --no-headers");
        assert_eq!(listed.lines().count(), 20);
        let events = kubectl.ok("get events --field-selector reason=Scheduled --no-headers");
        assert!(events.contains("Successfully assigned"), "{events}");
    });
}

#[test]
fn a_deployment_is_rolled_out_scaled_and_removed() {
    if !target().has(Capability::Nodes) || !target().has(Capability::VirtualPods) {
        return;
    }
    each(|kubectl| {
        let _network = Network::of(kubectl);
        kubectl.ok("create deployment web --image=x --replicas=4");
        let said = kubectl.ok("rollout status deployment web --timeout=60s");
        assert!(said.contains("deployment \"web\" successfully rolled out"), "{said}");
        let table = kubectl.ok("get deployment web");
        assert_eq!(row(&table, "web")[1..4], ["4/4", "4", "4"]);
        kubectl.ok("wait --for=condition=Available deployment/web --timeout=60s");
        kubectl.ok("wait --for=condition=Ready pods -l app=web --timeout=60s");
        kubectl.ok("scale deployment web --replicas=2");
        until("2 pods are left", || pods(kubectl).len() == 2);

        kubectl.ok("set image deployment/web x=y");
        kubectl.ok("rollout status deployment web --timeout=60s");
        until("all pods have the new image", || {
            let pods = pods(kubectl);
            pods.len() == 2 && pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "y")
        });
        let history = kubectl.ok("rollout history deployment web");
        assert!(history.contains("\n1 ") && history.contains("\n2 "), "{history}");
        kubectl.ok("rollout undo deployment web");
        kubectl.ok("rollout status deployment web --timeout=60s");
        until("all pods have the old image", || {
            pods(kubectl)
                .iter()
                .all(|pod| pod["spec"]["containers"][0]["image"] == "x")
        });

        kubectl.ok("delete deployment web");
        until("no pod is left", || {
            get(kubectl.core("pods")).send().expect(200)["items"] == json!([])
        });
    });
}

#[test]
fn a_drained_node_loses_its_pods_and_gets_none_until_it_is_opened() {
    if !target().has(Capability::Nodes) || !target().has(Capability::VirtualPods) {
        return;
    }
    each(|kubectl| {
        let _network = Network::of(kubectl);
        // A label of its own: pods of other tests stay where they are.
        let app = kubectl.name.as_str();
        let text = json!({
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web"},
            "spec": {
                "replicas": 6,
                "selector": {"matchLabels": {"app": app}},
                "template": {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "x"}]}},
            },
        });
        kubectl.fed(&text.to_string(), "apply -f -");
        until("6 pods have a node", || nodes_of(&pods(kubectl)).len() == 6);
        let node = nodes_of(&pods(kubectl))[0].to_owned();
        let selector = format!("--pod-selector=app={app}");
        let drained = kubectl.ok(["drain", &node, "--ignore-daemonsets", &selector, "--timeout=60s"]);
        assert!(drained.contains("evicted") && drained.contains("drained"), "{drained}");
        until("6 pods are on other nodes", || {
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
        kubectl.ok("run p --image=x");
        until("the pod has a node", || nodes_of(&pods(kubectl)).len() == 1);
        let node = kubectl.ok("get pod p -o jsonpath={.spec.nodeName}");
        let described = kubectl.ok(["describe", "node", &node]);
        let lease = described.split("Lease:").nth(1).unwrap_or_default();
        assert!(
            lease.contains("RenewTime:") && !lease.contains("RenewTime:       <unset>"),
            "{described}"
        );
        let mine = described
            .lines()
            .any(|line| line.trim_start().starts_with(&kubectl.name) && line.contains(" p "));
        assert!(mine, "{described}");
        let pod = kubectl.ok("describe pod p");
        assert!(pod.contains("Successfully assigned"), "{pod}");
    });
}
