//! Why a machine waits for its network.

use berth_api::subnet::Use;
use berth_kit::watch::Key;

use super::Explanation;
use super::subnet::state as subnet_state;
use crate::facts::Facts;

pub fn machine(facts: &Facts, key: &Key) -> Option<Explanation> {
    let machine = facts.machines.get(key)?;
    let addresses: Vec<String> = machine.addresses.iter().map(ToString::to_string).collect();
    let has = addresses.join(", ");
    let told = Explanation::default();
    if machine.is_deleting {
        return Some(told.says(format!(
            "{key} is being deleted; {has} comes back when its builder has let go of it."
        )));
    }
    if !machine.is_gated {
        let step = match machine.phase.as_str() {
            "" => "is open to be built",
            phase => phase,
        };
        return Some(told.says(format!("{key} has {has} and {step}.")));
    }
    let mut told = told.says(format!("{key} is gated: nobody builds it before it has a network."));
    if let Some(why) = &machine.why_not {
        told = told.says(format!("Machine IPAM says: {why}."));
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
    if subnets == 0 {
        told = told
            .advises("give `berth machine-ipam` a --network, or create a Subnet with use machines");
    }
    if machine.why_not.is_none() {
        told = told.advises("is machine IPAM running? kubectl get lease -n kube-system");
    }
    Some(told)
}
