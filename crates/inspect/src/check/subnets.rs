//! Compares Subnets with each other.

use super::Finding;
use crate::facts::{Facts, cidrs};

/// Two Subnets with the same addresses. Subnets for machines may share CIDRs with disjoint ranges:
/// the ledger decides about these.
pub fn overlapping(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    let subnets: Vec<_> = facts.subnets.iter().collect();
    for (index, (name, subnet)) in subnets.iter().enumerate() {
        for (other_name, other) in &subnets[index + 1..] {
            if !subnet.spec.ranges.is_empty() && !other.spec.ranges.is_empty() {
                continue;
            }
            let theirs = cidrs(other);
            let both = cidrs(subnet)
                .into_iter()
                .find(|cidr| theirs.iter().any(|their| their.overlaps(*cidr)));
            let serving = |subnet: &berth_api::Subnet| {
                subnet.status.as_ref().is_some_and(|status| !status.cidrs.is_empty())
            };
            if let Some(cidr) = both.filter(|_| serving(subnet) && serving(other)) {
                findings.push(Finding::new(
                    format!("subnet {name}"),
                    format!("follows {cidr}, and so does Subnet {other_name}"),
                    format!("delete {other_name}, once nobody has an address of it"),
                ));
            }
        }
    }
    findings
}
