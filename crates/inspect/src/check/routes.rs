//! Routes to the podCIDRs of nodes, as the route controller reports them: it writes on each Node
//! whether its routes are in the backend.

use berth_addr::Prefix;
use berth_api::ObservedNode;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::NodeCondition;

use super::Finding;
use crate::facts::Facts;
use crate::status::pod_cidrs;

/// A new node is routed within this time, also while a cloud is slow.
const GRACE: SignedDuration = SignedDuration::from_mins(2);

fn network_unavailable(node: &ObservedNode) -> Option<&NodeCondition> {
    node.condition("NetworkUnavailable")
}

/// A shared podCIDR: a route can lead to only one of the nodes.
pub fn shared_pod_cidrs(facts: &Facts) -> Vec<Finding> {
    // Sorted by first address, the wider CIDR first: a CIDR that overlaps an earlier one is inside
    // it.
    let mut all: Vec<(Prefix, &str)> = Vec::new();
    for (name, node) in &facts.nodes {
        let parsed = node.pod_cidrs().filter_map(|cidr| cidr.parse().ok());
        all.extend(parsed.map(|cidr: Prefix| (cidr, name.as_str())));
    }
    all.sort_by_key(|(cidr, name)| (cidr.first(), cidr.length(), *name));
    let mut findings = Vec::new();
    let mut widest: Option<(Prefix, &str)> = None;
    for (cidr, name) in all {
        if let Some((wide, other)) = widest.filter(|(wide, _)| wide.overlaps(cidr))
            && other != name
        {
            findings.push(Finding::new(
                format!("node {name}"),
                format!(
                    "has the podCIDR {cidr}, and node {other} has {wide}: a route leads to only one"
                ),
                format!("kubectl delete node {name}, and let it register again"),
            ));
            continue;
        }
        widest = Some((cidr, name));
    }
    findings
}

/// The route controller reports no route, or reports nothing on this node but something on others.
pub fn without_route(facts: &Facts) -> Vec<Finding> {
    let with_cidrs = || facts.nodes.iter().filter(|(_, node)| node.pod_cidrs().next().is_some());
    let is_told = with_cidrs().any(|(_, node)| network_unavailable(node).is_some());
    let mut findings = Vec::new();
    for (name, node) in with_cidrs() {
        let cidrs = pod_cidrs(node).join(", ");
        let (since, problem) = match network_unavailable(node) {
            Some(condition) if condition.status == "False" => continue,
            Some(condition) => {
                let said = condition.message.as_deref().unwrap_or_default();
                let since = condition.last_transition_time.as_ref().map(|time| time.0);
                (since, format!("has no route to {cidrs}: {said}"))
            }
            None if is_told => {
                let since = node.metadata.creation_timestamp.as_ref().map(|time| time.0);
                (
                    since,
                    format!("has the podCIDRs {cidrs}, and no route controller reports on it"),
                )
            }
            None => continue,
        };
        if since.is_some_and(|since| facts.now.duration_since(since) < GRACE) {
            continue;
        }
        findings.push(Finding::new(
            format!("node {name}"),
            problem,
            format!("berth explain node {name}; does the controller route run, and lead?"),
        ));
    }
    findings
}
