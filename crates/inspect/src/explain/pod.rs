//! Why a pod has no address, or which subnet its address is in.

use berth_kit::watch::Key;

use super::node::addresses as node_addresses;
use super::reason::steps_for_refusals;
use super::subnet::state as subnet_state;
use super::{Explanation, recent_warnings, span};
use crate::facts::{Facts, PodFacts, is_for_pods};
use crate::status::condition;

pub fn pod(facts: &Facts, key: &Key) -> Option<Explanation> {
    let pod = facts.pods.get(key)?;
    let name = &key.name;
    let told = Explanation::default();
    if pod.is_on_host_network {
        return Some(told.says(format!("{name} is on its node's network: it needs no address.")));
    }
    if pod.is_finished() {
        let told = told.says(format!("{name} has ended ({}): its address is back.", pod.phase));
        return Some(told);
    }
    let told = match &pod.node {
        None => unscheduled(facts, key, pod),
        Some(node) if pod.addresses.is_empty() => waiting(facts, key, pod, node),
        Some(node) => running(facts, key, pod, node),
    };
    Some(told.then(recent_warnings(facts, "Pod", key)))
}

fn age(facts: &Facts, pod: &PodFacts) -> String {
    pod.created
        .map_or_else(String::new, |created| format!(" since {}", span(created, facts.now)))
}

fn unscheduled(facts: &Facts, key: &Key, pod: &PodFacts) -> Explanation {
    let (name, age) = (&key.name, age(facts, pod));
    let told = Explanation::default();
    let Some(why) = &pod.unschedulable else {
        return told
            .says(format!("{name} waits{age}: no scheduler has looked at it."))
            .advises(format!(
                "does the scheduler that it names run? kubectl get pod -n {} {name} -o \
                 jsonpath='{{.spec.schedulerName}}'",
                key.namespace
            ));
    };
    let mut told = told.says(format!("{name} waits{age}, on no node. The scheduler says: {why}"));
    for step in steps_for_refusals(why) {
        told = told.advises(step);
    }
    let for_want_of_ip = why.contains("pod IP") || why.contains(berth_api::names::POD_IPS);
    if for_want_of_ip {
        let full = facts
            .subnets
            .values()
            .filter(|subnet| is_for_pods(subnet))
            .filter(|subnet| {
                let status = subnet.status.as_ref();
                let fit = status.and_then(|status| status.pods_that_fit.or(status.free));
                fit.is_some_and(|fit| fit.0 == 0)
            });
        for subnet in full {
            told = told.then(subnet_state(subnet));
        }
        if told.next_steps.is_empty() {
            // The scheduler names the extended resource that is short, and no cause.
            told = told.advises("add a node, or append a CIDR to the Subnet of the full nodes");
        }
        return told;
    }
    if told.next_steps.is_empty() {
        told = told.advises(format!("kubectl describe pod -n {} {name}", key.namespace));
    }
    told
}

fn waiting(facts: &Facts, key: &Key, pod: &PodFacts, node: &str) -> Explanation {
    let (name, age) = (&key.name, age(facts, pod));
    let told = Explanation::default();
    if pod.is_deleting {
        return told.says(format!("{name} is being deleted, and has no address."));
    }
    let Some(found) = facts.nodes.get(node) else {
        return told
            .says(format!("{name} waits{age}: its Node {node} is not there."))
            .advises(format!(
                "kubectl delete pod -n {} {name}, or bring {node} back",
                key.namespace
            ));
    };
    let mut told = told.says(format!("{name} waits{age} on {node}, without an address."));
    if let Some(why) = &pod.waiting {
        told = told.says(format!("Its kubelet says: {why}."));
    }
    if let Some((is, why)) = condition(found, "Ready")
        && is != "True"
    {
        return told
            .says(format!("{node} is not Ready: {why}."))
            .advises(format!("kubectl describe node {node}; look at its kubelet's log"));
    }
    told.then(node_addresses(facts, node, found))
}

fn running(facts: &Facts, key: &Key, pod: &PodFacts, node: &str) -> Explanation {
    let mut told = Explanation::default();
    for address in &pod.addresses {
        let others: Vec<String> = facts
            .pods_with(*address)
            .filter(|(other, _)| *other != key)
            .map(|(other, _)| other.to_string())
            .collect();
        if !others.is_empty() {
            told = told
                .says(format!("{address} is also on {}.", others.join(", ")))
                .advises(format!("kubectl delete pod -n {} {}", key.namespace, key.name));
        }
        let subnet = facts.subnet_of(*address);
        let of = subnet.and_then(|subnet| subnet.metadata.name.as_deref());
        let of = of.map_or_else(|| "in no Subnet".to_owned(), |name| format!("in subnet {name}"));
        told = told.says(format!("{} on {node} has {address}, {of}.", key.name));
        if subnet.is_some_and(is_for_pods) && !facts.nodes_with(*address).any(|one| one == node) {
            told = told
                .says(format!("{node}'s NodeNetworkConfig does not list {address}."))
                .advises("berth check: it may have been leased to another node");
        }
    }
    told
}
