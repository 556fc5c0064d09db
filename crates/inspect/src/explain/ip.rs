//! Whose an address is.

use std::net::IpAddr;

use super::{Explanation, span};
use crate::facts::{Facts, Unit};

pub fn ip(facts: &Facts, address: IpAddr) -> Explanation {
    let mut told = Explanation::default();
    let Some(subnet) = facts.subnet_of(address) else {
        told = told.says(format!("{address} is in no Subnet."));
        return told.then(shown(facts, address));
    };
    let name = subnet.metadata.name.clone().unwrap_or_default();
    told = told.says(format!("{address} is in subnet {name}."));
    match facts.unit_of(address) {
        Some((_, unit, Unit::Owned(held))) => {
            let since = held.since.map_or_else(String::new, |since| {
                format!(", since {} ({since})", span(since, facts.now))
            });
            let kind = held.kind();
            told = told.says(format!("The ledger has {unit} for {kind} {}{since}.", held.name()));
        }
        Some((_, unit, Unit::Released(at))) => {
            told = told.says(format!(
                "{unit} was released {} ago; it cools down for {}.",
                span(*at, facts.now),
                subnet.spec.reuse_delay
            ));
        }
        None if facts.has_blocks(&name) => {
            told = told.says("Nobody has it, and nobody had it lately.");
        }
        None => {
            told = told.says(
                "Its owner is in the ledger's own store, which the API server does not show.",
            );
        }
    }
    told.then(shown(facts, address))
}

fn shown(facts: &Facts, address: IpAddr) -> Explanation {
    let mut told = Explanation::default();
    for node in facts.nodes_with(address) {
        told = told.says(format!("Node {node} has it for its pods."));
    }
    let pods: Vec<_> = facts.pods_with(address).collect();
    for (key, pod) in &pods {
        let node = pod.node.as_deref().unwrap_or("no node");
        told = told.says(format!("Pod {key} on {node} shows it."));
    }
    if let [_, _, ..] = pods.as_slice() {
        told = told.advises("berth check: two pods have one address");
    }
    for (key, machine) in &facts.machines {
        if machine.addresses.contains(&address) {
            told = told.says(format!("Machine {key} has it."));
        }
    }
    told
}
