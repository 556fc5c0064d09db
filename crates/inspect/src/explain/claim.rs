//! Why a claim of Cluster API has no address, and what is wrong with a cluster's machine network.

use berth_kit::watch::Key;

use super::{Explanation, plain, recent_warnings, with_step_for};
use crate::facts::Facts;

pub fn claim(facts: &Facts, key: &Key) -> Option<Explanation> {
    let claim = facts.claims.get(key)?;
    let mut told = Explanation::default();
    told = match (&claim.address, claim.is_ready) {
        (Some(address), true) => told.says(format!("{key} has the IPAddress {address}.")),
        _ if claim.reason.is_empty() => told
            .says(format!("{key} waits: no controller has looked at it."))
            .advises("is `berth controller` running with the controller claim?"),
        _ => {
            let why = plain(&claim.message);
            let told = told.says(format!("{key} waits ({}): {why}.", claim.reason));
            with_step_for(told, Some(&claim.reason))
        }
    };
    Some(told.then(recent_warnings(facts, "IPAddressClaim", key)))
}

pub fn cluster(facts: &Facts, name: &str) -> Option<Explanation> {
    facts.clusters.get(name)?;
    let key = Key {
        namespace: String::new(),
        name: name.to_owned(),
    };
    let warnings = recent_warnings(facts, "Cluster", &key);
    let told = match warnings.sentences.is_empty() {
        true => format!("There are no recent warnings about the machine network of {name}."),
        false => format!("There are warnings about the machine network of {name}."),
    };
    Some(Explanation::default().says(told).then(warnings))
}
