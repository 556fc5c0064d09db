//! Compares what agents hold with pods and NodeNetworkConfigs. An agent that did not answer is left
//! out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use berth_api::agent::{AddressState, DigestLine};

use super::Finding;
use crate::facts::{Facts, PodFacts};

fn is_assigned(line: &DigestLine) -> bool {
    line.state == AddressState::Assigned
}

/// All assigned addresses, each with its node.
fn assigned(facts: &Facts) -> impl Iterator<Item = (&str, &DigestLine)> {
    facts.digests.iter().flat_map(|(node, lines)| {
        let assigned = lines.values().filter(|line| is_assigned(line));
        assigned.map(move |line| (node.as_str(), line))
    })
}

/// Two agents have one address assigned.
pub fn held_twice(facts: &Facts) -> Vec<Finding> {
    let mut by_address: BTreeMap<IpAddr, Vec<&str>> = BTreeMap::new();
    for (node, line) in assigned(facts) {
        by_address.entry(line.address).or_default().push(node);
    }
    let twice = by_address.into_iter().filter(|(_, nodes)| nodes.len() > 1);
    let finding = |(address, nodes): (IpAddr, Vec<&str>)| {
        Finding::new(
            format!("ip {address}"),
            format!("is assigned by the agents of {}", nodes.join(" and ")),
            "delete the pod that has it on one of the nodes: berth explain ip names both",
        )
    };
    twice.map(finding).collect()
}

/// A pod shows an address that its agent has for another pod, or for none.
pub fn pods(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = BTreeSet::new();
    let living = facts.pods.values().filter(|pod| pod.is_living());
    let shown = living.flat_map(|pod| &pod.addresses);
    let shared: BTreeSet<IpAddr> = shown.copied().filter(|one| !seen.insert(*one)).collect();
    for (key, pod) in facts.pods.iter().filter(|(_, pod)| pod.is_living() && !pod.is_deleting) {
        let Some(node) = pod.node.as_deref() else {
            continue;
        };
        let (Some(lines), Some(nnc)) = (facts.digests.get(node), facts.nncs.get(node)) else {
            continue;
        };
        for address in &pod.addresses {
            // Addresses that Berth did not give are not checked.
            let ours = nnc.lists(*address);
            // `check::pods` already reports two pods with one address. One of the two must disagree
            // with its agent, too.
            if !ours || shared.contains(address) {
                continue;
            }
            if let Some(problem) = disagreement(pod, node, *address, lines.get(address)) {
                findings.push(Finding::new(
                    format!("pod {key}"),
                    problem,
                    format!(
                        "kubectl delete pod -n {} {}: it comes back with an address that \
                         nobody else has",
                        key.namespace, key.name
                    ),
                ));
            }
        }
    }
    findings
}

fn disagreement(
    pod: &PodFacts,
    node: &str,
    address: IpAddr,
    line: Option<&DigestLine>,
) -> Option<String> {
    let word = match line.map(|line| line.state) {
        // A quarantined address is given to nobody until it is known who has it.
        Some(AddressState::Quarantined) => return None,
        Some(AddressState::Assigned) => {
            let holder = line.map(|line| line.pod_uid.as_str()).unwrap_or_default();
            let same = holder.is_empty() || holder == pod.sandbox_uid;
            return (!same).then(|| {
                format!("shows {address}, which the agent of {node} has for another pod ({holder})")
            });
        }
        Some(AddressState::Free | AddressState::CoolingDown) | None => "counts as free",
        Some(AddressState::Releasing) => "gives back",
    };
    Some(format!("shows {address}, which the agent of {node} {word}"))
}

/// A pod has an address that its NodeNetworkConfig does not list: another node may get it.
pub fn not_listed(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (node, line) in assigned(facts) {
        let Some(nnc) = facts.nncs.get(node) else {
            continue;
        };
        let held = berth_api::nnc::held_of(&nnc.object);
        // The format of a newer agent cannot be read: no finding.
        let is_reported = || match &held {
            Ok(held) => held.iter().any(|one| one.ip.parse() == Ok(line.address)),
            Err(_) => true,
        };
        if !nnc.lists(line.address) && !is_reported() {
            findings.push(Finding::new(
                format!("node {node}"),
                format!(
                    "has {} assigned, which its NodeNetworkConfig does not list",
                    line.address
                ),
                "is the agent cut off from the API server? Look at its log; then delete the pod",
            ));
        }
    }
    findings
}

/// Addresses held for pods that are gone: nobody uses them, and nobody else can.
pub fn pods_that_are_gone(facts: &Facts) -> Vec<Finding> {
    let living: BTreeSet<&str> = facts
        .pods
        .values()
        .filter(|pod| !pod.is_finished())
        .map(|pod| pod.sandbox_uid.as_str())
        .collect();
    let gone = assigned(facts)
        .filter(|(_, line)| !line.pod_uid.is_empty() && !living.contains(line.pod_uid.as_str()));
    let finding = |(node, line): (&str, &DigestLine)| {
        Finding::new(
            format!("node {node}"),
            format!("holds {} for pod {}, which is not there", line.address, line.pod_uid),
            "wait for --reclaim-grace of its agent; if it stays, does the agent have a --cri-socket?",
        )
    };
    gone.map(finding).collect()
}
