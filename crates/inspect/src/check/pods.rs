//! The addresses that living pods show.

use std::collections::BTreeMap;
use std::net::IpAddr;

use berth_kit::watch::Key;

use super::Finding;
use crate::facts::{Facts, PodFacts, is_for_pods};
use crate::repair::Repair;

pub fn shared_addresses(facts: &Facts) -> Vec<Finding> {
    let mut by_address: BTreeMap<IpAddr, Vec<(&Key, &PodFacts)>> = BTreeMap::new();
    for (key, pod) in facts.pods.iter().filter(|(_, pod)| pod.is_living()) {
        for address in &pod.addresses {
            by_address.entry(*address).or_default().push((key, pod));
        }
    }
    let shared = by_address.into_iter().filter(|(_, pods)| pods.len() > 1);
    shared.map(|(address, pods)| shared_address(address, &pods)).collect()
}

/// The youngest pod has to go: the others have older connections.
fn shared_address(address: IpAddr, pods: &[(&Key, &PodFacts)]) -> Finding {
    let names: Vec<String> = pods.iter().map(|(key, _)| key.to_string()).collect();
    let youngest = pods.iter().max_by_key(|(key, pod)| (pod.created, *key));
    let name = youngest.map(|(key, _)| key.to_string()).unwrap_or_default();
    let leaves = pods.iter().any(|(_, pod)| pod.is_deleting);
    let replaced = youngest.filter(|(_, pod)| pod.is_replaced && !leaves);
    Finding::new(
        format!("ip {address}"),
        format!("is on the pods {}", names.join(" and ")),
        format!("delete one of them, such as {name}: it comes back with another address"),
    )
    .repaired_by(replaced.map(|(key, pod)| Repair::DeletePod {
        namespace: key.namespace.clone(),
        name: key.name.clone(),
        uid: pod.uid.clone(),
    }))
}

/// The pod's node does not have the address: nothing keeps it from another node.
pub fn not_listed(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (key, pod) in facts.pods.iter().filter(|(_, pod)| pod.is_living() && !pod.is_deleting) {
        let Some(node) = pod.node.as_deref() else {
            continue;
        };
        for address in &pod.addresses {
            let ours = facts.subnet_of(*address).is_some_and(is_for_pods);
            let listed = || facts.nodes_with(*address).any(|name| name == node);
            let held = || is_held(facts, node, *address);
            if ours && !listed() && !held() {
                findings.push(Finding::new(
                    format!("pod {key}"),
                    format!("has {address}, which NodeNetworkConfig {node} does not list"),
                    "wait a minute: the controller claims it back; if it stays, delete the pod",
                ));
            }
        }
    }
    findings
}

/// The agent has reported that it holds the address although its NodeNetworkConfig does not list
/// it: the controller knows.
fn is_held(facts: &Facts, node: &str, address: IpAddr) -> bool {
    let nnc = facts.nncs.get(node);
    let held = nnc
        .and_then(|nnc| berth_api::nnc::held_of(&nnc.object).ok())
        .unwrap_or_default();
    held.iter().any(|one| one.ip.parse() == Ok(address))
}
