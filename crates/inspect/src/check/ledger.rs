//! Compares the ledger's records in AddressBlocks with what nodes have.

use jiff::SignedDuration;

use super::Finding;
use crate::facts::{Facts, Unit};

/// The addresses of deleted owners are taken back within this time.
const GRACE: SignedDuration = SignedDuration::from_mins(10);

/// A node lists an address that the ledger has for another owner, or for none.
pub fn other_owner(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, nnc) in &facts.nncs {
        for unit in nnc.units.iter().copied() {
            let Some(subnet) = facts.subnet_of(unit.first()) else {
                continue;
            };
            let subnet = subnet.metadata.name.clone().unwrap_or_default();
            if !facts.has_blocks(&subnet) {
                continue;
            }
            let problem = match facts.units.get(&(subnet.clone(), unit)) {
                Some(Unit::Owned(held)) if held.name() == name => continue,
                Some(Unit::Owned(held)) => {
                    format!("lists {unit}, which the ledger has for {}", held.owner)
                }
                Some(Unit::Released(_)) | None => {
                    format!("lists {unit}, which has no owner in the ledger")
                }
            };
            findings.push(Finding::new(
                format!("nnc {name}"),
                problem,
                "restart `berth controller`: it claims back what nodes have before it leases",
            ));
        }
    }
    findings
}

/// A unit of an owner that no longer exists: a node or a machine.
pub fn owners_that_are_gone(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for ((subnet, unit), state) in &facts.units {
        let Unit::Owned(held) = state else {
            continue;
        };
        let young = held.since.is_some_and(|since| facts.now.duration_since(since) < GRACE);
        let there = match held.kind() {
            "primary" | "secondary" | "node-cidr" => {
                facts.nodes.contains_key(held.name()) || facts.nncs.contains_key(held.name())
            }
            "machine" => facts.machines.values().any(|machine| machine.uid == held.uid()),
            // Claims are not read, and reservations belong to people.
            _ => true,
        };
        if !there && !young {
            findings.push(Finding::new(
                format!("ip {unit}"),
                format!("of subnet {subnet} is owned by {}, which is not there", held.owner),
                "is `berth controller` running with the controller reclaim? It takes it back",
            ));
        }
    }
    findings
}
