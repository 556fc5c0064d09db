//! A healthy cluster, and what can be done to it: the objects as an API server would have them.

use std::collections::BTreeMap;

use berth_api::AddressBlock;
use berth_api::agent::DigestLine;
use berth_inspect::Facts;
use berth_inspect::facts::{ClaimFacts, EventFacts, MachineFacts, NncFacts, PodFacts, units};
use berth_kit::watch::Key;
use jiff::Timestamp;
use kube::core::DynamicObject;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const CREATED: &str = "2026-11-15T00:00:00Z";

pub fn key(namespace: &str, name: &str) -> Key {
    Key {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}

/// An owner, as an AddressBlock has it.
pub fn owner(owner: &str) -> Value {
    json!({"owner": owner, "lease": "l", "since": "2026-11-15T00:00:00.000000Z"})
}

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

pub struct Scene {
    facts: Facts,
    nodes: BTreeMap<String, Value>,
    blocks: BTreeMap<String, AddressBlock>,
}

impl Scene {
    /// Two nodes on one subnet, and a pod on the first.
    pub fn healthy() -> Self {
        let facts = Facts {
            now: "2026-11-16T00:00:10Z".parse::<Timestamp>().unwrap(),
            ..Facts::default()
        };
        let mut scene = Self {
            facts,
            nodes: BTreeMap::new(),
            blocks: BTreeMap::new(),
        };
        for node in ["n1", "n2"] {
            scene.node(node, json!([{"type": "Ready", "status": "True"}]));
            scene.nnc(node, 16, &[]);
        }
        scene.subnet(
            "pods",
            json!({"cidrs": ["10.0.0.0/24"]}),
            json!({"cidrs": ["10.0.0.0/24"]}),
        );
        scene.subnet(
            "racks",
            json!({"use": "machines", "cidrs": ["10.20.0.0/24"]}),
            json!({"cidrs": ["10.20.0.0/24"], "capacity": 254, "free": 254}),
        );
        scene.counts("pods", 253, 20, 0, 233);
        scene.nnc("n1", 1, &["10.0.0.4"]);
        scene.running("web", "n1", "10.0.0.4");
        scene
    }

    pub fn facts(&self) -> Facts {
        let blocks: Vec<AddressBlock> = self.blocks.values().cloned().collect();
        Facts {
            units: units(&blocks),
            ..self.facts.clone()
        }
    }

    pub fn node(&mut self, name: &str, conditions: Value) {
        let metadata =
            json!({"name": name, "uid": format!("uid-{name}"), "creationTimestamp": CREATED});
        let node = json!({"metadata": metadata, "status": {"conditions": conditions}});
        self.put_node(name, node);
    }

    /// A node with a podCIDR, and what a route controller says.
    pub fn routed(&mut self, name: &str, cidr: &str, said: Option<(&str, &str)>) {
        let condition = |(status, message): (&str, &str)| {
            let kind = "NetworkUnavailable";
            json!({"type": kind, "status": status, "message": message})
        };
        let conditions: Vec<Value> = said.map(condition).into_iter().collect();
        let node = json!({
            "metadata": {"name": name, "creationTimestamp": CREATED},
            "spec": {"podCIDR": cidr},
            "status": {
                "conditions": conditions,
                "addresses": [
                    {"type": "InternalIP", "address": "192.0.2.1"},
                    {"type": "Hostname", "address": name},
                ],
            },
        });
        self.put_node(name, node);
    }

    /// Sets when the conditions of a node last changed.
    pub fn transition(&mut self, name: &str, at: &str) {
        let mut node = self.nodes[name].clone();
        for condition in node["status"]["conditions"].as_array_mut().unwrap() {
            condition["lastTransitionTime"] = json!(at);
        }
        self.put_node(name, node);
    }

    fn put_node(&mut self, name: &str, node: Value) {
        self.facts.nodes.insert(name.to_owned(), object(node.clone()));
        self.nodes.insert(name.to_owned(), node);
    }

    pub fn nnc(&mut self, name: &str, requested: i64, addresses: &[&str]) {
        let assignments: Vec<Value> = addresses
            .iter()
            .map(|ip| json!({"name": format!("l-{ip}"), "ip": ip}))
            .collect();
        let container = json!({
            "id": "nc", "primaryIP": "10.0.0.1", "subnetName": "pods", "ipAssignments": assignments,
        });
        let nnc = json!({
            "apiVersion": "acn.azure.com/v1alpha", "kind": "NodeNetworkConfig",
            "metadata": {
                "name": name, "namespace": "kube-system", "uid": format!("uid-{name}"),
                "creationTimestamp": CREATED,
            },
            "spec": {"requestedIPCount": requested},
            "status": {"assignedIPCount": addresses.len(), "networkContainers": [container]},
        });
        self.facts.nncs.insert(name.to_owned(), NncFacts::of(object(nnc)));
    }

    pub fn delete_nnc(&mut self, name: &str) {
        self.facts.nncs.remove(name);
    }

    /// What the agent says that it holds.
    pub fn held(&mut self, name: &str, address: &str) {
        let held = json!([{"name": "l", "ip": address}]).to_string();
        let nnc = self.facts.nncs.get_mut(name).unwrap();
        let annotations = nnc.object.metadata.annotations.get_or_insert_default();
        annotations.insert("berth.dev/held".to_owned(), held);
    }

    /// What the agent of a node says that it holds: address, state, and whose it is.
    pub fn digest(&mut self, node: &str, lines: &[(&str, &str, &str)]) {
        let line = |(address, state, uid): &(&str, &str, &str)| {
            let line: DigestLine =
                object(json!({"address": address, "state": state, "podUid": uid}));
            (line.address, line)
        };
        let lines = lines.iter().map(line).collect();
        self.facts.digests.insert(node.to_owned(), lines);
    }

    pub fn subnet(&mut self, name: &str, spec: Value, status: Value) {
        let subnet = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "Subnet",
            "metadata": {"name": name, "creationTimestamp": CREATED},
            "spec": spec, "status": status,
        });
        self.facts.subnets.insert(name.to_owned(), object(subnet));
    }

    pub fn counts(&mut self, name: &str, capacity: u64, reserved: u64, cooling: u64, free: u64) {
        let subnet = self.facts.subnets.get_mut(name).unwrap();
        let mut status = serde_json::to_value(subnet.status.clone().unwrap_or_default()).unwrap();
        status["capacity"] = json!(capacity);
        status["reserved"] = json!(reserved);
        status["coolingDown"] = json!(cooling);
        status["free"] = json!(free);
        subnet.status = Some(object(status));
    }

    pub fn conditions(&mut self, name: &str, conditions: Value) {
        let subnet = self.facts.subnets.get_mut(name).unwrap();
        subnet.status.get_or_insert_default().conditions = object(conditions);
    }

    pub fn pod(&mut self, name: &str, mut spec: Value, status: Value) {
        spec["containers"] = json!([]);
        let metadata = json!({
            "namespace": "default", "name": name, "uid": format!("uid-{name}"),
            "creationTimestamp": CREATED,
        });
        let pod = object(json!({"metadata": metadata, "spec": spec, "status": status}));
        self.facts.pods.insert(key("default", name), PodFacts::of(&pod));
    }

    pub fn pod_mut(&mut self, name: &str) -> &mut PodFacts {
        self.facts.pods.get_mut(&key("default", name)).unwrap()
    }

    pub fn running(&mut self, name: &str, node: &str, address: &str) {
        let status = json!({"phase": "Running", "podIPs": [{"ip": address}]});
        self.pod(name, json!({"nodeName": node}), status);
    }

    pub fn waiting(&mut self, name: &str, node: &str) {
        self.pod(name, json!({"nodeName": node}), json!({"phase": "Pending"}));
    }

    pub fn unschedulable(&mut self, name: &str, message: &str) {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
        });
        self.pod(name, json!({}), json!({"phase": "Pending", "conditions": [condition]}));
    }

    /// A warning about an object.
    pub fn warning(&mut self, kind: &str, about: Key, reason: &str, note: &str) {
        let event = json!({
            "metadata": {"name": "e"}, "type": "Warning", "reason": reason, "message": note,
            "eventTime": "2026-11-15T23:59:56.000000Z",
            "involvedObject": {"kind": kind, "namespace": about.namespace, "name": about.name},
        });
        self.facts.events.push(EventFacts::of(&object(event)));
    }

    /// A claim with what its condition Ready says.
    pub fn claim(&mut self, name: &str, reason: &str, message: &str) {
        let ready =
            json!({"type": "Ready", "status": "False", "reason": reason, "message": message});
        let claim: DynamicObject = object(json!({
            "apiVersion": "ipam.cluster.x-k8s.io/v1beta2", "kind": "IPAddressClaim",
            "metadata": {"namespace": "default", "name": name},
            "status": {"conditions": [ready]},
        }));
        self.facts.claims.insert(key("default", name), ClaimFacts::of(&claim));
    }

    pub fn cluster(&mut self, name: &str) {
        self.facts.clusters.insert(name.to_owned());
    }

    /// A gated machine with what machine IPAM says of it, or one that its provider failed to build.
    pub fn failed_machine(&mut self, name: &str, gated: bool, reason: &str, message: &str) {
        let gate = match gated {
            true => json!({"machine-controller.kubermatic.io/initializers": "ipam.berth.dev"}),
            false => json!({}),
        };
        let condition = json!({
            "type": "NetworkAllocated", "status": "False", "reason": reason, "message": message,
        });
        let machine: DynamicObject = object(json!({
            "apiVersion": "machine.k8s.io/v1alpha1", "kind": "Machine",
            "metadata": {"name": name, "uid": format!("uid-{name}"), "annotations": gate},
            "status": {"conditions": [condition], "phase": reason, "message": message},
        }));
        self.facts.machines.insert(key("", name), MachineFacts::of(&machine));
    }

    pub fn block(&mut self, subnet: &str, first: &str, owned: Value, released: Value) {
        let block = json!({
            "apiVersion": "berth.dev/v1alpha1", "kind": "AddressBlock", "metadata": {"name": "b"},
            "spec": {"subnet": subnet, "first": first, "owned": owned, "released": released},
        });
        self.blocks.insert(format!("{subnet}-{first}"), object(block));
    }

    pub fn machine(&mut self, name: &str, address: Option<&str>, refused: &str) {
        let network = address.map(|ip| json!({"ip": ip, "netmask": "255.255.255.0"}));
        let gate = match address {
            None => json!({"machine-controller.kubermatic.io/initializers": "ipam.berth.dev"}),
            Some(_) => json!({}),
        };
        let conditions = match refused {
            "" => json!([]),
            why => json!([{"type": "NetworkAllocated", "status": "False", "message": why}]),
        };
        let machine: DynamicObject = object(json!({
            "apiVersion": "machine.k8s.io/v1alpha1", "kind": "Machine",
            "metadata": {"name": name, "uid": format!("uid-{name}"), "annotations": gate},
            "spec": {"providerConfig": {"network": network}},
            "status": {"conditions": conditions},
        }));
        self.facts.machines.insert(key("", name), MachineFacts::of(&machine));
    }
}
