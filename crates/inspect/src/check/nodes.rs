//! Nodes and their NodeNetworkConfigs.

use std::collections::BTreeMap;

use berth_addr::Prefix;
use jiff::SignedDuration;
use kube::ResourceExt;

use super::Finding;
use crate::facts::{Facts, NncFacts, is_for_pods};
use crate::repair::Repair;

/// A Node gets its NodeNetworkConfig, and loses it, within this time.
const GRACE: SignedDuration = SignedDuration::from_mins(5);

pub fn listed_twice(facts: &Facts) -> Vec<Finding> {
    let mut by_unit: BTreeMap<Prefix, Vec<&str>> = BTreeMap::new();
    for (name, nnc) in &facts.nncs {
        for unit in nnc.units.iter().copied() {
            by_unit.entry(unit).or_default().push(name);
        }
    }
    let twice = by_unit.into_iter().filter(|(_, nodes)| nodes.len() > 1);
    let finding = |(unit, nodes): (Prefix, Vec<&str>)| {
        Finding::new(
            format!("ip {unit}"),
            format!("is listed for the nodes {}", nodes.join(" and ")),
            "keep pods off one of the two (kubectl cordon), and look at `berth controller`'s log",
        )
    };
    twice.map(finding).collect()
}

/// A NodeNetworkConfig without a Node. One that is young, or whose deletion is, is left out.
pub fn without_node(facts: &Facts) -> Vec<Finding> {
    let gone = facts.nncs.iter().filter(|(name, nnc)| {
        let deleting = nnc.object.metadata.deletion_timestamp.as_ref();
        let old = deleting.is_none_or(|since| facts.now.duration_since(since.0) > GRACE);
        !facts.nodes.contains_key(*name) && old && is_old(facts, &nnc.object)
    });
    let finding = |(name, nnc): (&String, &NncFacts)| {
        // If pods still run, a kubelet may run, too, and create its Node again.
        let lives = facts.pods_on(name).any(|(_, pod)| pod.is_living());
        let repair = nnc
            .object
            .uid()
            .filter(|_| !lives && nnc.object.metadata.deletion_timestamp.is_none());
        Finding::new(
            format!("nnc {name}"),
            "has no Node, and keeps its addresses",
            format!(
                "is `berth controller` running with the controllers node and reclaim? If the \
                 node never comes back: kubectl delete nnc -n kube-system {name}"
            ),
        )
        .repaired_by(repair.map(|uid| Repair::DeleteNnc {
            name: name.clone(),
            uid,
        }))
    };
    gone.map(finding).collect()
}

/// A Subnet selects all nodes, and this node has no NodeNetworkConfig.
pub fn without_nnc(facts: &Facts) -> Vec<Finding> {
    let for_all = facts.subnets.values().any(|subnet| {
        let selector = &subnet.spec.node_selector;
        let empty = selector.match_labels.is_none() && selector.match_expressions.is_none();
        is_for_pods(subnet) && empty && subnet.metadata.deletion_timestamp.is_none()
    });
    if !for_all {
        return Vec::new();
    }
    let without = facts
        .nodes
        .iter()
        .filter(|(name, node)| !facts.nncs.contains_key(*name) && is_old(facts, *node));
    let finding = |(name, _): (&String, _)| {
        Finding::new(
            format!("node {name}"),
            "has no NodeNetworkConfig, though a Subnet selects all nodes",
            "is `berth controller` running, and does it lead? kubectl get lease -n kube-system",
        )
    };
    without.map(finding).collect()
}

fn is_old(facts: &Facts, object: &impl ResourceExt) -> bool {
    let created = object.creation_timestamp();
    created.is_none_or(|created| facts.now.duration_since(created.0) > GRACE)
}
