//! Why a machine waits for its network.

use berth_api::subnet::Use;
use berth_kit::watch::Key;

use super::subnet::state as subnet_state;
use super::{Explanation, plain, recent_warnings, with_step_for};
use crate::facts::Facts;

/// The reason that machine IPAM gives if there is no Subnet for a machine.
const NO_NETWORK: &str = "NoNetwork";

pub fn machine(facts: &Facts, key: &Key) -> Option<Explanation> {
    let machine = facts.machines.get(key)?;
    let addresses: Vec<String> = machine.addresses.iter().map(ToString::to_string).collect();
    let has = addresses.join(", ");
    let told = Explanation::default();
    if machine.is_deleting {
        return Some(told.says(format!(
            "{key} is being deleted; {has} is released once only Berth's finalizer is left."
        )));
    }
    if !machine.is_gated {
        let step = match machine.phase.as_str() {
            "" => "is open to be built",
            phase => phase,
        };
        let mut told = told.says(format!("{key} has {has} and {step}."));
        if machine.phase == "Failed" {
            let why = plain(&machine.message);
            told = with_step_for(told.says(format!("Its provider says: {why}.")), Some("Failed"));
        }
        return Some(told.then(recent_warnings(facts, "Machine", key)));
    }
    let mut told = told.says(format!("{key} is gated: nobody builds it before it has a network."));
    if let Some(why) = &machine.why_not {
        let told_why = told.says(format!("Machine IPAM says: {}.", plain(why)));
        told = with_step_for(told_why, machine.reason.as_deref());
    }
    let mut subnets = 0;
    for subnet in facts
        .subnets
        .values()
        .filter(|subnet| subnet.spec.usage == Use::Machines)
    {
        subnets += 1;
        told = told.then(subnet_state(subnet));
    }
    // The reason above may have given this step already.
    if subnets == 0 && machine.reason.as_deref() != Some(NO_NETWORK) {
        told = with_step_for(told, Some(NO_NETWORK));
    }
    if machine.why_not.is_none() {
        told = told.advises("is machine IPAM running? kubectl get lease -n kube-system");
    }
    Some(told.then(recent_warnings(facts, "Machine", key)))
}
