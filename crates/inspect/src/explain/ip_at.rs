//! Who had an address at a time, as far as the records go back.
//!
//! For each address the ledger keeps only the last change: its owner and since when, or when it was
//! released.

use std::net::IpAddr;

use jiff::Timestamp;

use super::Explanation;
use crate::facts::{Facts, Unit};

pub fn ip_at(facts: &Facts, address: IpAddr, at: Timestamp) -> Explanation {
    let told = Explanation::default();
    if at > facts.now {
        return told.says(format!("{at} is in the future."));
    }
    let Some(subnet) = facts.subnet_of(address) else {
        return told.says(format!("{address} is in no Subnet."));
    };
    let name = subnet.metadata.name.clone().unwrap_or_default();
    match facts.unit_of(address) {
        Some((_, unit, Unit::Owned(held))) => {
            let owner = format!("{} {}", held.kind(), held.name());
            match held.since {
                Some(since) if since <= at => told
                    .says(format!("At {at} the ledger had {unit} for {owner}, since {since}."))
                    .then(shown(facts, address, at)),
                Some(since) => told
                    .says(format!("The ledger has {unit} for {owner}, but only since {since}."))
                    .then(not_kept(address)),
                None => told
                    .says(format!("The ledger has {unit} for {owner}; since when is not kept."))
                    .then(not_kept(address)),
            }
        }
        Some((_, unit, Unit::Released(released))) if *released <= at => {
            told.says(format!("At {at} nobody had {unit}: it was released at {released}."))
        }
        Some((_, unit, Unit::Released(released))) => told
            .says(format!("{unit} was released later, at {released}."))
            .then(not_kept(address)),
        None if facts.has_blocks(&name) => told
            .says(format!("Nobody has {address} of subnet {name}."))
            .then(not_kept(address)),
        None => {
            told.says("Its owner is in the ledger's own store, which the API server does not show.")
        }
    }
}

fn shown(facts: &Facts, address: IpAddr, at: Timestamp) -> Explanation {
    let mut told = Explanation::default();
    for (key, pod) in facts.pods_with(address) {
        told = match pod.created {
            Some(created) if created <= at => {
                told.says(format!("Pod {key}, created before then, shows it now."))
            }
            _ => told.says(format!("Pod {key} shows it now, but was created later.")),
        };
    }
    told
}

fn not_kept(address: IpAddr) -> Explanation {
    Explanation::default()
        .says("There is no record of who had it before.")
        .advises(format!(
            "grep {address} in the logs of `berth controller` and `berth agent`"
        ))
}
