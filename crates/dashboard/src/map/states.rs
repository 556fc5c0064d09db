//! In which state each unit of a window is: one walk in the order of addresses, which keeps
//! nothing. A window may have a million units.

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

/// In the order of what counts when several are true.
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

    /// By the kind that an owner's text begins with.
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

/// What one observer says of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Said {
    unit: Prefix,
    state: State,
    /// Whether the unit is taken by that alone.
    decides: bool,
}

type Observer<'a> = Peekable<Box<dyn Iterator<Item = Said> + 'a>>;

/// Units that are not simply free, each once, in their order.
pub fn states<'a>(
    index: &'a Index,
    subnet: &Subnet,
    source: Source,
    window: Prefix,
    unit_length: u8,
    now: Timestamp,
) -> impl Iterator<Item = (Prefix, State)> + 'a {
    let said = |decides| move |(unit, state)| Said { unit, state, decides };
    // Where the ledger is read, it alone says what is taken.
    let shown_decides = source == Source::NodesAndPods;
    let unit_of = move |address| Prefix::around(address, unit_length);
    let pods = index.addresses.pods_in(window).filter_map(move |(at, _)| unit_of(at));
    let machines = index.addresses.machines_in(window);
    let machines = machines.filter_map(move |(at, _)| unit_of(at));
    let assigned = |unit| (unit, State::Assigned);
    let mut observers: Vec<Box<dyn Iterator<Item = Said> + 'a>> = vec![
        Box::new(pods.map(assigned).map(said(shown_decides))),
        Box::new(machines.map(assigned).map(said(shown_decides))),
    ];
    match source {
        Source::AddressBlocks => {
            let name = subnet.name_any();
            let delay = parse_duration(&subnet.spec.reuse_delay).unwrap_or_default();
            let owned = index.blocks.owned_in(&name, window);
            let owned = owned.map(|(unit, owned)| (unit, State::of_owner(&owned.owner)));
            observers.push(Box::new(owned.map(said(true))));
            let released = index.blocks.released_in(&name, window);
            let cooling = released.filter(move |(_, at)| is_cooling(*at, now, delay));
            let cooling = cooling.map(|(unit, _)| (unit, State::CoolingDown));
            observers.push(Box::new(cooling.map(said(true))));
        }
        Source::NodesAndPods => {
            // The podCIDR of a node is a unit only where units are podCIDRs.
            let listed = index.addresses.listed_in(window, unit_length);
            let listed = listed.map(|(unit, lister, _)| (unit, State::of_lister(lister)));
            observers.push(Box::new(listed.map(said(true))));
        }
    }
    let mut observers: Vec<Observer<'a>> = observers.into_iter().map(Iterator::peekable).collect();
    std::iter::from_fn(move || next_unit(&mut observers)).flatten()
}

/// All that is said of the next unit. `Some(None)` of one that nobody has who decides.
fn next_unit(observers: &mut [Observer<'_>]) -> Option<Option<(Prefix, State)>> {
    let peeked = observers.iter_mut().filter_map(|one| one.peek().map(|said| said.unit));
    let unit = peeked.min()?;
    let (mut state, mut is_taken) = (State::CoolingDown, false);
    for observer in observers {
        while let Some(said) = observer.next_if(|said| said.unit == unit) {
            state = state.max(said.state);
            is_taken |= said.decides;
        }
    }
    Some(is_taken.then_some((unit, state)))
}
