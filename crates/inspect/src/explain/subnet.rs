//! Why a Subnet gives no addresses, or how many it still has.

use berth_api::Subnet;
use berth_kit::watch::Key;

use super::{Explanation, plain, recent_warnings, text, with_step_for};
use crate::facts::{Facts, NncFacts, is_for_pods};

pub fn subnet(facts: &Facts, name: &str) -> Option<Explanation> {
    let found = facts.subnets.get(name)?;
    let key = Key {
        namespace: String::new(),
        name: name.to_owned(),
    };
    let told = state(found).then(demand(facts, name, found));
    Some(told.then(recent_warnings(facts, "Subnet", &key)))
}

/// How full it is, and what its conditions say.
pub fn state(subnet: &Subnet) -> Explanation {
    let name = subnet.metadata.name.clone().unwrap_or_default();
    let status = subnet.status.clone().unwrap_or_default();
    let conditions = &status.conditions;
    let condition = |kind: &str, value: &str| {
        conditions.iter().find(|one| one.type_ == kind && one.status == value)
    };
    let mut told = Explanation::default();
    if conditions.is_empty() && status.capacity.is_none() {
        return told
            .says(format!("No controller has looked at Subnet {name}."))
            .advises(
                "is `berth controller` running, and does it lead? kubectl get lease -n kube-system",
            );
    }
    if subnet.metadata.deletion_timestamp.is_some() {
        told = told.says(format!(
            "Subnet {name} is being deleted: it gives nothing new, and goes when its last \
             address is back."
        ));
    }
    if let Some(overlapping) = condition("Overlapping", "True") {
        told = told
            .says(format!("Subnet {name} overlaps: {}.", plain(&overlapping.message)))
            .advises(format!("kubectl edit subnet {name}: use CIDRs that nobody else has"));
        told = with_step_for(told, Some(&overlapping.reason));
    }
    if let Some(ready) = condition("Ready", "False") {
        told = told.says(format!("Subnet {name} is not ready: {}.", plain(&ready.message)));
        told = with_step_for(told, Some(&ready.reason));
    }
    if let Some(conflict) = condition("Conflict", "True") {
        told = told.says(format!("Subnet {name} has a conflict: {}.", plain(&conflict.message)));
        told = with_step_for(told, Some(&conflict.reason));
    }
    if let Some(unknown) = condition("Exhausted", "Unknown") {
        told = told.says(format!("It is not known how full it is: {}.", plain(&unknown.message)));
        told = with_step_for(told, Some(&unknown.reason));
    }
    let (reserved, capacity) = (text(status.reserved), text(status.capacity));
    let free = text(status.free);
    let cooling = status.cooling_down.map_or(0, |count| count.0);
    let full = status.free.is_some_and(|free| free.0 == 0);
    if full && cooling == 0 {
        told = told
            .says(format!("Subnet {name} is full: {reserved} of {capacity} are reserved."))
            .advises(format!("kubectl edit subnet {name}: append a CIDR to spec.cidrs"));
    } else if full {
        let delay = &subnet.spec.reuse_delay;
        told = told
            .says(format!(
                "Subnet {name} is full: {reserved} of {capacity} are reserved, and {cooling} \
                 cool down for {delay} after their release."
            ))
            .advises(format!("kubectl edit subnet {name}: append a CIDR to spec.cidrs"));
    } else {
        told = told.says(format!(
            "Subnet {name} has {free} of {capacity} free; {reserved} are reserved and {cooling} \
             cool down."
        ));
    }
    if let Some(exhausted) = condition("Exhausted", "True") {
        told = with_step_for(told, Some(&exhausted.reason));
        told = told.says(format!(
            "It is exhausted: nodes keep one spare address and no more, until less than {} % \
             would be reserved.",
            subnet.spec.exhaustion.leave_percent
        ));
    }
    told
}

fn demand(facts: &Facts, name: &str, subnet: &Subnet) -> Explanation {
    let told = Explanation::default();
    if !is_for_pods(subnet) {
        return told;
    }
    let draws = |nnc: &NncFacts| {
        let status = nnc.object.status.as_ref();
        let mut containers = status.into_iter().flat_map(|status| &status.network_containers);
        containers.any(|container| container.subnet_name == name)
    };
    let is_short = |nnc: &NncFacts| {
        let has = nnc.object.status.as_ref().map_or(0, |status| status.assigned_ip_count);
        nnc.object.spec.requested_ip_count > has
    };
    let drawing: Vec<_> = facts.nncs.iter().filter(|(_, nnc)| draws(nnc)).collect();
    let short = drawing.iter().filter(|(_, nnc)| is_short(nnc));
    let waiting: Vec<&str> = short.map(|(node, _)| node.as_str()).collect();
    let told = told.says(format!("{} nodes draw on it.", drawing.len()));
    if waiting.is_empty() {
        return told;
    }
    told.says(format!(
        "{} of them ask for more than they have: {}.",
        waiting.len(),
        first_few(&waiting)
    ))
}

pub fn first_few(names: &[&str]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}
