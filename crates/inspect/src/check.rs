//! Compares pods, NodeNetworkConfigs, Nodes, the ledger's records, machines, Subnets, routes and
//! what agents hold, and finds what disagrees.
//!
//! Everything is read at about one moment, while a healthy system keeps changing. So a disagreement
//! that the system itself repairs within a grace period is not reported.

mod agents;
mod ledger;
mod machines;
mod nodes;
mod pods;
mod routes;
mod subnets;

use serde::Serialize;

use crate::facts::Facts;
use crate::repair::Repair;

/// One disagreement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// The object, such as `pod default/web-3`.
    pub object: String,
    pub problem: String,
    /// How to repair it.
    pub fix: String,
    /// The repair that `berth check --repair` makes, where it can do no harm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<Repair>,
}

impl Finding {
    fn new(object: impl Into<String>, problem: impl Into<String>, fix: impl Into<String>) -> Self {
        Self {
            object: object.into(),
            problem: problem.into(),
            fix: fix.into(),
            repair: None,
        }
    }

    fn repaired_by(self, repair: Option<Repair>) -> Self {
        Self { repair, ..self }
    }
}

/// The most severe first: addresses on two pods.
pub fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings = pods::shared_addresses(facts);
    findings.extend(agents::held_twice(facts));
    findings.extend(agents::pods(facts));
    findings.extend(nodes::listed_twice(facts));
    findings.extend(ledger::other_owner(facts));
    findings.extend(pods::not_listed(facts));
    findings.extend(machines::shared_addresses(facts));
    findings.extend(machines::other_owner(facts));
    findings.extend(subnets::overlapping(facts));
    findings.extend(routes::shared_pod_cidrs(facts));
    findings.extend(routes::without_route(facts));
    findings.extend(agents::not_listed(facts));
    findings.extend(agents::pods_that_are_gone(facts));
    findings.extend(nodes::without_node(facts));
    findings.extend(nodes::without_nnc(facts));
    findings.extend(ledger::owners_that_are_gone(facts));
    findings
}
