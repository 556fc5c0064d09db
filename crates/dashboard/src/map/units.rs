//! The owner of each unit in a small window.

use std::collections::BTreeMap;

use berth_addr::Prefix;
use berth_api::Subnet;
use berth_api::subnet::parse_duration;
use berth_kit::watch::Key;
use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;

use super::Source;
use super::states::{State, is_cooling};
use crate::index::{Index, Lister, Owned};

/// The owner of a unit, as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Detail {
    /// The owner from the ledger or the node, such as `secondary berth-node-1`; else the pod or
    /// machine. `nobody` if the unit cools down.
    pub owner: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Namespace and name; for a podCIDR, of the first pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// How many pods have an address in it.
    pub pods: usize,
    /// If the ledger is read, when the owner got the unit or it was released; else creation of the
    /// pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

type Units = BTreeMap<Prefix, (State, Detail)>;

/// The details of each unit, for a window of a few thousand units: see [`super::states`] for larger
/// ones.
pub fn details(
    index: &Index,
    subnet: &Subnet,
    source: Source,
    window: Prefix,
    unit_length: u8,
    now: Timestamp,
) -> BTreeMap<Prefix, Detail> {
    let mut units = Units::new();
    match source {
        Source::AddressBlocks => add_owned(index, subnet, window, now, &mut units),
        Source::NodesAndPods => add_listed(index, window, unit_length, &mut units),
    }
    add_observed(index, source, window, unit_length, &mut units);
    let details = units.into_iter().map(|(unit, (_, detail))| (unit, detail));
    details.collect()
}

/// Adds the owners from the ledger, without pods and machines.
fn add_owned(index: &Index, subnet: &Subnet, window: Prefix, now: Timestamp, units: &mut Units) {
    let name = subnet.name_any();
    let delay = parse_duration(&subnet.spec.reuse_delay).unwrap_or_default();
    for (unit, released) in index.blocks.released_in(&name, window) {
        if is_cooling(released, now, delay) {
            let detail = Detail {
                owner: "nobody".to_owned(),
                since: Some(released),
                ..Detail::default()
            };
            units.insert(unit, (State::CoolingDown, detail));
        }
    }
    for (unit, owned) in index.blocks.owned_in(&name, window) {
        units.insert(unit, of_owner(owned));
    }
}

/// `kind/cluster/…/name/uid`, as the ledger writes owners.
fn of_owner(owned: &Owned) -> (State, Detail) {
    let kind = owned.owner.split('/').next().unwrap_or_default();
    let name = owned.owner.rsplit('/').nth(1).unwrap_or_default();
    let is_node = matches!(kind, "primary" | "secondary" | "node-cidr");
    let detail = Detail {
        owner: format!("{kind} {name}"),
        node: is_node.then(|| name.to_owned()),
        since: owned.since,
        ..Detail::default()
    };
    (State::of_owner(&owned.owner), detail)
}

/// Adds what the nodes list.
fn add_listed(index: &Index, window: Prefix, unit_length: u8, units: &mut Units) {
    // The podCIDR of a node is a unit only where units are podCIDRs.
    for (unit, lister, node) in index.addresses.listed_in(window, unit_length) {
        let kind = match lister {
            Lister::Primary => "primary",
            Lister::Pool => "secondary",
            Lister::PodCidr => "node-cidr",
        };
        let detail = || Detail {
            owner: format!("{kind} {node}"),
            node: Some(node.to_owned()),
            ..Detail::default()
        };
        units
            .entry(unit)
            .or_insert_with(|| (State::of_lister(lister), detail()));
    }
}

/// Adds pods and machines. If the ledger is read, it alone decides what is taken.
fn add_observed(index: &Index, source: Source, window: Prefix, unit_length: u8, units: &mut Units) {
    let mut enter = |address, owner: &str, key: &Key, is_pod: bool| {
        let Some(unit) = Prefix::around(address, unit_length) else {
            return;
        };
        if source == Source::AddressBlocks && !units.contains_key(&unit) {
            return;
        }
        let (state, detail) = units.entry(unit).or_insert_with(|| {
            let detail = Detail {
                owner: format!("{owner} {key}"),
                ..Detail::default()
            };
            (State::Assigned, detail)
        });
        *state = (*state).max(State::Assigned);
        if is_pod {
            let pod = index.facts.pods.get(key);
            detail.pods += 1;
            detail.pod.get_or_insert_with(|| key.to_string());
            detail.since = detail.since.or(pod.and_then(|pod| pod.created));
            if detail.node.is_none() {
                detail.node = pod.and_then(|pod| pod.node.clone());
            }
        }
    };
    for (address, key) in index.addresses.pods_in(window) {
        enter(address, "pod", key, true);
    }
    for (address, key) in index.addresses.machines_in(window) {
        enter(address, "machine", key, false);
    }
}
