//! What is where, as rows.

use std::collections::HashMap;

use berth_api::{Count, ObservedNode, Subnet};
use serde::Serialize;

use crate::facts::{Facts, PodFacts, cidrs};

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubnetRow {
    pub name: String,
    pub r#use: String,
    pub cidrs: Vec<String>,
    pub capacity: Option<Count>,
    pub reserved: Option<Count>,
    pub cooling_down: Option<Count>,
    pub free: Option<Count>,
    pub pods_that_fit: Option<Count>,
    /// Ready, or why not.
    pub state: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeRow {
    pub name: String,
    pub ready: bool,
    /// The subnet of its addresses.
    pub subnet: String,
    pub pod_cidrs: Vec<String>,
    /// How many addresses it has for pods; below, how many it asked for.
    pub has: u128,
    pub requested: i64,
    pub pods: usize,
    pub waiting: usize,
    pub state: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRow {
    pub namespace: String,
    pub name: String,
    pub node: String,
    pub addresses: Vec<String>,
    pub state: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineRow {
    pub namespace: String,
    pub name: String,
    pub addresses: Vec<String>,
    pub state: String,
}

/// The route to a node's pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RouteRow {
    pub node: String,
    pub pod_cidrs: Vec<String>,
    /// Where it leads: the node's own addresses.
    pub next_hops: Vec<String>,
    /// `Routed`, `NoRoute`, or `NotManaged` if no route controller has reported anything.
    pub state: String,
    pub message: String,
}

/// Everything, for one screen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    pub subnets: Vec<SubnetRow>,
    pub nodes: Vec<NodeRow>,
    pub pods: Vec<PodRow>,
    pub machines: Vec<MachineRow>,
    pub routes: Vec<RouteRow>,
}

pub fn status(facts: &Facts) -> Status {
    Status {
        subnets: subnets(facts),
        nodes: nodes(facts),
        pods: pods(facts),
        machines: machines(facts),
        routes: routes(facts),
    }
}

pub fn subnets(facts: &Facts) -> Vec<SubnetRow> {
    facts.subnets.values().map(subnet_row).collect()
}

/// Counts pods in one pass for all nodes.
pub fn nodes(facts: &Facts) -> Vec<NodeRow> {
    let mut on_nodes = HashMap::<&str, OnNode>::new();
    for pod in facts.pods.values().filter(|pod| pod.is_living()) {
        if let Some(node) = &pod.node {
            let count = on_nodes.entry(node).or_default();
            count.pods += 1;
            count.waiting += usize::from(pod.waits_for_address());
        }
    }
    let row = |(name, node): (&String, &ObservedNode)| {
        let on_node = on_nodes.get(name.as_str()).copied().unwrap_or_default();
        node_row(facts, name, node, on_node)
    };
    facts.nodes.iter().map(row).collect()
}

/// The pods of a node that need an address, and how many of them have none.
#[derive(Clone, Copy, Default)]
struct OnNode {
    pods: usize,
    waiting: usize,
}

/// The routes of nodes with podCIDRs: other nodes need none.
pub fn routes(facts: &Facts) -> Vec<RouteRow> {
    let rows = facts.nodes.iter().map(|(name, node)| {
        let (state, message) = match condition(node, "NetworkUnavailable") {
            Some((status, message)) if status == "False" => ("Routed", message),
            Some((_, message)) => ("NoRoute", message),
            None => ("NotManaged", String::new()),
        };
        RouteRow {
            node: name.clone(),
            pod_cidrs: pod_cidrs(node),
            next_hops: node.internal_ips().map(str::to_owned).collect(),
            state: state.to_owned(),
            message,
        }
    });
    rows.filter(|row| !row.pod_cidrs.is_empty()).collect()
}

pub fn pod_cidrs(node: &ObservedNode) -> Vec<String> {
    node.pod_cidrs().map(str::to_owned).collect()
}

fn subnet_row(subnet: &Subnet) -> SubnetRow {
    let status = subnet.status.clone().unwrap_or_default();
    let usage = serde_json::to_value(subnet.spec.usage).unwrap_or_default();
    SubnetRow {
        name: subnet.metadata.name.clone().unwrap_or_default(),
        r#use: usage.as_str().unwrap_or_default().to_owned(),
        cidrs: cidrs(subnet).iter().map(ToString::to_string).collect(),
        capacity: status.capacity,
        reserved: status.reserved,
        cooling_down: status.cooling_down,
        free: status.free,
        pods_that_fit: status.pods_that_fit,
        state: subnet_state(subnet),
    }
}

/// The worst of its conditions.
pub fn subnet_state(subnet: &Subnet) -> String {
    if subnet.metadata.deletion_timestamp.is_some() {
        return "Deleting".to_owned();
    }
    let conditions = subnet.status.iter().flat_map(|status| &status.conditions);
    let is = |kind: &str, value: &str| {
        let mut all = conditions.clone();
        all.any(|condition| condition.type_ == kind && condition.status == value)
    };
    let state = if conditions.clone().next().is_none() {
        "NotLookedAt"
    } else if is("Overlapping", "True") {
        "Overlapping"
    } else if is("Ready", "False") {
        "NotReady"
    } else if is("Exhausted", "True") {
        "Exhausted"
    } else {
        "Ready"
    };
    state.to_owned()
}

fn node_row(facts: &Facts, name: &str, node: &ObservedNode, on_node: OnNode) -> NodeRow {
    let nnc = facts.nncs.get(name);
    let status = nnc.and_then(|nnc| nnc.object.status.as_ref());
    let containers = status.into_iter().flat_map(|status| &status.network_containers);
    let subnet = containers.map(|container| container.subnet_name.clone()).next();
    let OnNode { pods, waiting } = on_node;
    NodeRow {
        name: name.to_owned(),
        ready: condition(node, "Ready").is_some_and(|(status, _)| status == "True"),
        subnet: subnet.unwrap_or_default(),
        pod_cidrs: pod_cidrs(node),
        has: nnc.map_or(0, |nnc| nnc.addresses),
        requested: nnc.map_or(0, |nnc| nnc.object.spec.requested_ip_count),
        pods,
        waiting,
        state: node_state(node, waiting),
    }
}

fn node_state(node: &ObservedNode, waiting: usize) -> String {
    let is =
        |kind: &str, value: &str| condition(node, kind).is_some_and(|(status, _)| status == value);
    let state = if !is("Ready", "True") {
        "NotReady"
    } else if is("NetworkUnavailable", "True") {
        "NoRoute"
    } else if is(berth_api::names::POD_ADDRESSES_AVAILABLE, "False") || waiting > 0 {
        "NoAddressLeft"
    } else {
        "Ready"
    };
    state.to_owned()
}

/// The condition's status, and its message; its reason if it has no message.
pub fn condition(node: &ObservedNode, kind: &str) -> Option<(String, String)> {
    let found = node.condition(kind)?;
    let message = found.message.clone().filter(|message| !message.is_empty());
    Some((
        found.status.clone(),
        message.or(found.reason.clone()).unwrap_or_default(),
    ))
}

pub fn pods(facts: &Facts) -> Vec<PodRow> {
    let living = facts.pods.iter().filter(|(_, pod)| pod.is_living());
    living
        .map(|(key, pod)| PodRow {
            namespace: key.namespace.clone(),
            name: key.name.clone(),
            node: pod.node.clone().unwrap_or_default(),
            addresses: pod.addresses.iter().map(ToString::to_string).collect(),
            state: pod_state(pod).to_owned(),
        })
        .collect()
}

fn pod_state(pod: &PodFacts) -> &str {
    if pod.is_deleting {
        "Terminating"
    } else if pod.waits_for_address() {
        "WaitingForAddress"
    } else if pod.node.is_none() && pod.unschedulable.is_some() {
        "Unschedulable"
    } else {
        &pod.phase
    }
}

pub fn machines(facts: &Facts) -> Vec<MachineRow> {
    let state = |machine: &crate::facts::MachineFacts| {
        let state = if machine.is_deleting {
            "Deleting"
        } else if machine.is_gated && machine.why_not.is_some() {
            "NoNetwork"
        } else if machine.is_gated {
            "Gated"
        } else if machine.phase.is_empty() {
            "Open"
        } else {
            &machine.phase
        };
        state.to_owned()
    };
    let rows = facts.machines.iter().map(|(key, machine)| MachineRow {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        addresses: machine.addresses.iter().map(ToString::to_string).collect(),
        state: state(machine),
    });
    rows.collect()
}
