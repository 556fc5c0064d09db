//! Where a node's container is, what its status is to be after the allocator has answered, and what
//! a person should know of it. Pure.

use std::collections::BTreeSet;
use std::net::IpAddr;

use berth_addr::Prefix;
use berth_api::nnc::NetworkContainer;
use berth_api::{NodeNetworkConfig, NodeNetworkConfigStatus};
use berth_ledger::LeaseId;
use uuid::Uuid;

use super::status::{container_in, with_container, without_container, without_subnet};
use crate::allocator::Container;
use crate::assignments::leases_by_name;
use crate::facts::{NodeFacts, SubnetFacts};
use crate::index::View;
use crate::pods::ObservedAddress;
use crate::wait_list::Need;

/// What the status is to be, and what a person should know of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Proposal {
    pub status: NodeNetworkConfigStatus,
    pub warnings: Vec<Warning>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub reason: &'static str,
    pub note: String,
    /// The node can't be used at all: then the event is about it, too.
    pub about_node: bool,
    /// To be emitted even though the status stays as it is.
    pub is_new: bool,
}

impl From<NodeNetworkConfigStatus> for Proposal {
    fn from(status: NodeNetworkConfigStatus) -> Self {
        Self {
            status,
            warnings: Vec::new(),
        }
    }
}

/// What a container is decided on: its subnet, its node, and the status as it is.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    pub subnet: &'a str,
    /// `None` when there is no such Subnet any more.
    pub facts: Option<&'a SubnetFacts>,
    pub node: &'a NodeFacts,
    pub now: &'a NodeNetworkConfigStatus,
}

/// What the node asks for, and how much of it is missing.
#[derive(Clone, Copy, Debug)]
pub struct Shortfall {
    /// How many the spec requests.
    pub asked: i64,
    /// How many a node may have.
    pub max: Option<i64>,
    pub short: usize,
    /// What the node waited for already.
    pub before: Option<Need>,
}

/// The subnet that the container is in, or is to be in. A container stays where it is, whatever
/// subnet selects the node now.
pub fn home<'a>(nnc: &'a NodeNetworkConfig, view: &'a View, nc: Uuid) -> Option<&'a str> {
    let had = container_in(nnc.status.as_ref(), &nc.to_string());
    let home = had.map(|had| had.subnet_name.as_str());
    home.or(view.pods.as_deref())
}

/// The most that a node may have: from its Subnet, or from what that said before it was deleted.
pub fn max_ip_count(facts: Option<&SubnetFacts>, now: &NodeNetworkConfigStatus) -> Option<i64> {
    let scaler = facts.map(|facts| facts.scaler).or(now.scaler);
    scaler.map(|scaler| scaler.max_ip_count)
}

/// No subnet selects the node.
pub fn not_selected(view: &View, now: NodeNetworkConfigStatus) -> Proposal {
    // A node that has its podCIDR needs no other addresses.
    let warning = view.node_cidrs.is_none().then(|| Warning {
        reason: "NoSubnet",
        note: "no Subnet with use: pods selects this node: create one, or label the node so that \
               the nodeSelector of one matches"
            .to_owned(),
        about_node: false,
        is_new: true,
    });
    Proposal {
        status: now,
        warnings: warning.into_iter().collect(),
    }
}

/// There is no address for a container. `before` is what the node waited for already.
pub fn subnet_full(target: Target<'_>, before: Option<Need>) -> Proposal {
    let note = format!(
        "subnet {} has no address left for this node's network container: it gets one as soon as \
         another node gives one back, or at once when a CIDR is appended to spec.cidrs of the \
         Subnet",
        target.subnet
    );
    Proposal {
        status: without_container(target.now, target.facts),
        warnings: vec![Warning {
            reason: "SubnetFull",
            note,
            about_node: true,
            is_new: before.is_some_and(|before| before != Need::Start),
        }],
    }
}

/// The container's Subnet was deleted: the node keeps what it has.
pub fn subnet_gone(target: Target<'_>, had: &NetworkContainer) -> Proposal {
    let note = format!(
        "there is no Subnet {} any more: the node keeps the addresses it has and gets no others; \
         create the Subnet again with the same cidrs",
        target.subnet
    );
    Proposal {
        status: without_subnet(target.now, &had.id),
        warnings: vec![Warning {
            reason: "SubnetGone",
            note,
            about_node: false,
            is_new: false,
        }],
    }
}

/// The status with what the allocator has given.
pub fn delivered(target: Target<'_>, container: &Container, first_version: i64) -> Proposal {
    let Target { facts, node, now, .. } = target;
    if let Some(status) = with_container(now, container, facts, node, first_version) {
        return status.into();
    }
    let note = format!(
        "no CIDR in spec.cidrs of Subnet {} holds the address that the ledger gave: put back the \
         CIDRs that it was created with",
        container.subnet
    );
    Proposal {
        status: now.clone(),
        warnings: vec![Warning {
            reason: "SubnetChanged",
            note,
            about_node: true,
            is_new: true,
        }],
    }
}

/// The warnings for a node that requests too many addresses, or gets too few.
pub fn shortfall_warnings(subnet: &str, shortfall: Shortfall) -> Vec<Warning> {
    let Shortfall {
        asked,
        max,
        short,
        before,
    } = shortfall;
    let mut warnings = Vec::new();
    if let Some(max) = max.filter(|max| asked > *max) {
        let note = format!(
            "spec.requestedIPCount: {asked} is more than the {max} that a node may have, and \
             counts as {max}: ask for at most that, or raise scaler.maxIPCount of Subnet {subnet}"
        );
        warnings.push(Warning {
            reason: "TooManyRequested",
            note,
            about_node: false,
            is_new: false,
        });
    }
    if short > 0 {
        let asked = max.map_or(asked, |max| asked.min(max));
        let note = format!(
            "subnet {subnet} is full: {short} of the {asked} addresses that the node asks for are \
             missing; they come as soon as others are given back, or at once when a CIDR is \
             appended to spec.cidrs of the Subnet"
        );
        warnings.push(Warning {
            reason: "SubnetFull",
            note,
            about_node: false,
            is_new: before.is_some_and(|before| before != Need::More(short)),
        });
    }
    warnings
}

/// Addresses that an agent gives back although a living pod has them.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Contradicted {
    /// The pod is on this node. They stay: either the request is wrong, or the pod is just being
    /// removed.
    pub withheld: Vec<(IpAddr, LeaseId)>,
    /// The pod is on another node. They go to that node.
    pub elsewhere: Vec<ObservedAddress>,
}

pub fn contradicted(
    had: &NetworkContainer,
    give_back: &BTreeSet<LeaseId>,
    node: &str,
    observed: impl Fn(IpAddr) -> Vec<ObservedAddress>,
) -> Contradicted {
    let mut found = Contradicted::default();
    let leases = leases_by_name(&had.ip_assignments);
    for assignment in &had.ip_assignments {
        let lease = leases.get(assignment.name.as_str());
        let lease = lease.copied().filter(|lease| give_back.contains(lease));
        let (Some(lease), Ok(address)) = (lease, assignment.ip.parse()) else {
            continue;
        };
        let observed = observed(address);
        if observed.iter().any(|observed| observed.node == node) {
            found.withheld.push((address, lease));
        } else {
            found.elsewhere.extend(observed.into_iter().next());
        }
    }
    found
}

/// Addresses that were leased just now although a living pod on another node has them, and none on
/// this one.
pub fn in_use_elsewhere(
    had: &NetworkContainer,
    answer: &Container,
    node: &str,
    observed: impl Fn(IpAddr) -> Vec<ObservedAddress>,
) -> Vec<ObservedAddress> {
    let before: BTreeSet<&str> = had.ip_assignments.iter().map(|one| one.ip.as_str()).collect();
    let units = answer.secondaries.iter().flat_map(|secondary| &secondary.units);
    let addresses = units.map(|unit| unit.first());
    let new = addresses.filter(|address| !before.contains(address.to_string().as_str()));
    let elsewhere = new.filter_map(|address| {
        let observed = observed(address);
        let own = observed.iter().any(|observed| observed.node == node);
        observed.into_iter().next().filter(|_| !own)
    });
    elsewhere.collect()
}

/// A container's own units beyond one of each family. The store may have such units after somebody
/// deleted blocks or restored old ones. The unit that the status lists stays.
pub fn surplus_primaries(had: Option<&NetworkContainer>, answer: &Container) -> Vec<Prefix> {
    let texts = had.map(|had| [Some(&had.primary_ip), had.primary_ip_v6.as_ref()]);
    let texts = texts.into_iter().flatten().flatten();
    let listed: BTreeSet<IpAddr> = texts.filter_map(|text| text.parse().ok()).collect();
    let mut units = answer.primary.clone();
    // Of two that are listed, the first: one of them is where the other family belongs.
    units.sort_by_key(|unit| !listed.contains(&unit.first()));
    let mut families = BTreeSet::new();
    units.retain(|unit| !families.insert(unit.family()));
    units
}

#[cfg(test)]
mod tests;
