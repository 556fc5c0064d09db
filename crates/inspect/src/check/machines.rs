//! Machines and their addresses.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Finding;
use crate::facts::{Facts, Unit};

pub fn shared_addresses(facts: &Facts) -> Vec<Finding> {
    let mut by_address: BTreeMap<IpAddr, Vec<String>> = BTreeMap::new();
    for (key, machine) in &facts.machines {
        for address in &machine.addresses {
            by_address.entry(*address).or_default().push(key.to_string());
        }
    }
    let shared = by_address.into_iter().filter(|(_, machines)| machines.len() > 1);
    let finding = |(address, machines): (IpAddr, Vec<String>)| {
        Finding::new(
            format!("ip {address}"),
            format!("is set on the machines {}", machines.join(" and ")),
            "set another address on one of them, or delete it",
        )
    };
    shared.map(finding).collect()
}

/// The ledger has a machine's address for another owner.
pub fn other_owner(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (key, machine) in facts.machines.iter().filter(|(_, machine)| !machine.is_deleting) {
        for address in &machine.addresses {
            if let Some((_, _, Unit::Owned(held))) = facts.unit_of(*address)
                && held.uid() != machine.uid
            {
                findings.push(Finding::new(
                    format!("machine {key}"),
                    format!("has {address}, which the ledger has for {}", held.owner),
                    "set another address on the machine, or remove the other owner",
                ));
            }
        }
    }
    findings
}
