//! The state of each unit in a window: one walk in the order of addresses, without a list. A window
//! may have a million units.

use std::iter::Peekable;
use std::time::Duration;

use berth_addr::Prefix;
use berth_api::Subnet;
use berth_api::subnet::parse_duration;
use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;

use super::Source;
use crate::index::{Index, Lister};

/// When several states are true, the last of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    CoolingDown,
    /// A node has it for its pods, and none of them has it yet.
    Leased,
    /// A node's own.
    Primary,
    /// A pod, a machine or a claim has it.
    Assigned,
}

impl State {
    pub const ALL: [Self; 4] = [Self::CoolingDown, Self::Leased, Self::Primary, Self::Assigned];

    /// From the kind at the start of an owner's text.
    pub fn of_owner(owner: &str) -> Self {
        match owner.split('/').next().unwrap_or_default() {
            "primary" => Self::Primary,
            "machine" | "claim" => Self::Assigned,
            _ => Self::Leased,
        }
    }

    pub fn of_lister(lister: Lister) -> Self {
        match lister {
            Lister::Primary => Self::Primary,
            Lister::Pool | Lister::PodCidr => Self::Leased,
        }
    }
}

pub fn is_cooling(released: Timestamp, now: Timestamp, delay: Duration) -> bool {
    let delay = jiff::SignedDuration::try_from(delay).unwrap_or(jiff::SignedDuration::MAX);
    released.checked_add(delay).is_ok_and(|end| end > now)
}

/// One observer's state of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Observation {
    unit: Prefix,
    state: State,
    /// Whether this observer alone makes the unit taken.
    decides: bool,
}

type Observer<'a> = Peekable<Box<dyn Iterator<Item = Observation> + 'a>>;

/// Units that are not simply free, each once, in their order.
pub fn states<'a>(
    index: &'a Index,
    subnet: &Subnet,
    source: Source,
    window: Prefix,
    unit_length: u8,
    now: Timestamp,
) -> impl Iterator<Item = (Prefix, State)> + 'a {
    let observed = |decides| move |(unit, state)| Observation { unit, state, decides };
    // If the ledger is read, it alone decides what is taken.
    let observed_decides = source == Source::NodesAndPods;
    let unit_of = move |address| Prefix::around(address, unit_length);
    let pods = index.addresses.pods_in(window).filter_map(move |(at, _)| unit_of(at));
    let machines = index.addresses.machines_in(window);
    let machines = machines.filter_map(move |(at, _)| unit_of(at));
    let assigned = |unit| (unit, State::Assigned);
    let mut observers: Vec<Box<dyn Iterator<Item = Observation> + 'a>> = vec![
        Box::new(pods.map(assigned).map(observed(observed_decides))),
        Box::new(machines.map(assigned).map(observed(observed_decides))),
    ];
    match source {
        Source::AddressBlocks => {
            let name = subnet.name_any();
            let delay = parse_duration(&subnet.spec.reuse_delay).unwrap_or_default();
            let owned = index.blocks.owned_in(&name, window);
            let owned = owned.map(|(unit, owned)| (unit, State::of_owner(&owned.owner)));
            observers.push(Box::new(owned.map(observed(true))));
            let released = index.blocks.released_in(&name, window);
            let cooling = released.filter(move |(_, at)| is_cooling(*at, now, delay));
            let cooling = cooling.map(|(unit, _)| (unit, State::CoolingDown));
            observers.push(Box::new(cooling.map(observed(true))));
        }
        Source::NodesAndPods => {
            // The podCIDR of a node is a unit only where units are podCIDRs.
            let listed = index.addresses.listed_in(window, unit_length);
            let listed = listed.map(|(unit, lister, _)| (unit, State::of_lister(lister)));
            observers.push(Box::new(listed.map(observed(true))));
        }
    }
    let mut observers: Vec<Observer<'a>> = observers.into_iter().map(Iterator::peekable).collect();
    std::iter::from_fn(move || next_unit(&mut observers)).flatten()
}

/// Merges all observations of the next unit. `Some(None)`: no observer that decides has it.
fn next_unit(observers: &mut [Observer<'_>]) -> Option<Option<(Prefix, State)>> {
    let peeked = observers.iter_mut().filter_map(|one| one.peek().map(|next| next.unit));
    let unit = peeked.min()?;
    let (mut state, mut is_taken) = (State::CoolingDown, false);
    for observer in observers {
        while let Some(observation) = observer.next_if(|one| one.unit == unit) {
            state = state.max(observation.state);
            is_taken |= observation.decides;
        }
    }
    Some(is_taken.then_some((unit, state)))
}
