//! Why a node has no address for a pod.

use berth_api::names::{NAMESPACE, POD_ADDRESSES_AVAILABLE};
use berth_api::nnc::{NetworkContainer, Progress};
use berth_api::{NodeNetworkConfig, ObservedNode};
use berth_kit::watch::Key;

use super::subnet::state as subnet_state;
use super::{Explanation, plain, recent_warnings, with_step_for};
use crate::facts::Facts;
use crate::status::{condition, pod_cidrs};

pub fn node(facts: &Facts, name: &str) -> Option<Explanation> {
    let found = facts.nodes.get(name)?;
    Some(condition_of(name, found).then(addresses(facts, name, found)))
}

fn condition_of(name: &str, node: &ObservedNode) -> Explanation {
    let mut told = Explanation::default();
    match condition(node, "Ready") {
        Some((status, _)) if status == "True" => {
            told = told.says(format!("Node {name} is Ready."));
        }
        Some((_, why)) => {
            told = told
                .says(format!("Node {name} is not Ready: {why}."))
                .advises(format!("kubectl describe node {name}; look at its kubelet's log"));
        }
        None => told = told.says(format!("Node {name} has not reported whether it is Ready.")),
    }
    if let Some((_, why)) = condition(node, "NetworkUnavailable").filter(|(is, _)| is == "True") {
        told = told
            .says(format!("It has no route yet: {}.", plain(&why)))
            .advises("look at the route controller: kubectl get events -A | grep Route");
        told = with_step_for(told, reason(node, "NetworkUnavailable"));
    }
    told
}

/// What the node has for pods, why it does not get more, and its recent warnings.
pub fn addresses(facts: &Facts, name: &str, node: &ObservedNode) -> Explanation {
    let key = |namespace: &str| Key {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let mut told = supply(facts, name, node);
    if let Some((is, why)) = condition(node, POD_ADDRESSES_AVAILABLE)
        && is == "False"
    {
        told = told.says(format!("Its agent says: {}.", plain(&why)));
        told = with_step_for(told, reason(node, POD_ADDRESSES_AVAILABLE));
    }
    told.then(recent_warnings(facts, "Node", &key("")))
        .then(recent_warnings(facts, "NodeNetworkConfig", &key(NAMESPACE)))
}

fn supply(facts: &Facts, name: &str, node: &ObservedNode) -> Explanation {
    let told = Explanation::default();
    let Some(nnc) = facts.nncs.get(name) else {
        return without_nnc(facts, name, node);
    };
    let status = nnc.object.status.clone().unwrap_or_default();
    let Some(container) = status.network_containers.first() else {
        return without_container(facts, name, &nnc.object);
    };
    let pods = facts.pods_on(name).filter(|(_, pod)| pod.is_living()).count();
    if container.primary_ip.contains('/') {
        return told.says(format!(
            "{name} has {} of its own for pods, and {pods} pods that need an address.",
            container.primary_ip
        ));
    }
    let has = nnc.units.len();
    let asked = nnc.object.spec.requested_ip_count;
    let mut told = told.says(format!(
        "{name} has {has} addresses of subnet {} for {pods} pods; its agent asks for {asked}.",
        container.subnet_name
    ));
    let max = status.scaler.map_or(0, |scaler| scaler.max_ip_count);
    if max > 0 && i64::try_from(pods).is_ok_and(|pods| pods > max) {
        return told
            .says(format!("It may have {max} at most (scaler.maxIPCount)."))
            .advises(format!(
                "kubectl edit subnet {}: raise spec.scaler.maxIPCount, or move pods elsewhere",
                container.subnet_name
            ));
    }
    if i64::try_from(has).is_ok_and(|has| has < asked) {
        told = told.then(short(facts, container));
    } else if has < pods {
        told = told
            .says("Its agent has not asked for more: it does not see its pods, or does not run.")
            .advises(format!(
                "is the agent on {name} running? `berth agent` logs what it waits for"
            ));
    }
    told
}

/// The reason of a condition, in one word.
fn reason<'a>(node: &'a ObservedNode, kind: &str) -> Option<&'a str> {
    node.condition(kind)?.reason.as_deref()
}

fn short(facts: &Facts, container: &NetworkContainer) -> Explanation {
    let told = Explanation::default();
    match facts.subnets.get(&container.subnet_name) {
        Some(subnet) => told.then(subnet_state(subnet)),
        None => told
            .says(format!("There is no Subnet {} any more.", container.subnet_name))
            .advises(format!("create Subnet {} again, as it was", container.subnet_name)),
    }
}

fn without_nnc(facts: &Facts, name: &str, node: &ObservedNode) -> Explanation {
    let cidrs = pod_cidrs(node);
    let told = Explanation::default();
    if facts.missing.iter().any(|kind| kind == "NodeNetworkConfig") || facts.subnets.is_empty() {
        if !cidrs.is_empty() {
            return told.says(format!("{name} has the podCIDRs {}.", cidrs.join(", ")));
        }
        return told
            .says(format!(
                "{name} has no podCIDR, and there is no Subnet for it to draw on."
            ))
            .advises("create a Subnet: see docs/ledger.md");
    }
    told.says(format!("{name} has no NodeNetworkConfig."))
        .advises("does a Subnet with use pods select the node? kubectl get subnets -o yaml")
        .advises(
            "is `berth controller` running, and does it lead? kubectl get lease -n kube-system",
        )
}

fn without_container(facts: &Facts, name: &str, nnc: &NodeNetworkConfig) -> Explanation {
    let status = nnc.status.as_ref().and_then(|status| status.status);
    let told = match status {
        Some(Progress::Error) => {
            format!("{name}'s NodeNetworkConfig has no network container: it failed.")
        }
        _ => format!("{name}'s NodeNetworkConfig has no network container yet."),
    };
    let mut told = Explanation::default().says(told);
    let full = facts.subnets.values().filter(|subnet| {
        let status = subnet.status.as_ref();
        status.and_then(|status| status.free).is_some_and(|free| free.0 == 0)
    });
    for subnet in full {
        told = told.then(subnet_state(subnet));
    }
    told.advises(format!("kubectl describe nnc -n kube-system {name}"))
}
