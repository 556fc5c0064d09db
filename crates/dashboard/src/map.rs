//! A window of a subnet as cells. A cell is one unit, or several, so that a few thousand cells hold
//! the window.

mod states;
mod units;

use std::collections::BTreeMap;
use std::net::IpAddr;

use berth_addr::{Family, Layout, Prefix, number};
use berth_api::{Count, Subnet};
use berth_inspect::facts::cidrs;
use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;

use crate::index::Index;
pub use states::State;
pub use units::Detail;

/// A window has 2 to the power of this many cells at most.
const CELL_BITS: u8 = 12;

/// Why there is no such map.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    #[error("there is no Subnet {0}")]
    NoSubnet(String),
    #[error("Subnet {subnet}: {why}")]
    Unreadable { subnet: String, why: String },
    #[error("from: {from} is not in subnet {subnet}, which has {cidrs}")]
    Outside {
        subnet: String,
        from: IpAddr,
        cidrs: String,
    },
    #[error("length: /{length} is no part of {cidr}: use {shortest} to {longest}")]
    Length {
        length: u8,
        cidr: Prefix,
        shortest: u8,
        longest: u8,
    },
}

/// The source of single addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// The ledger's own records, which also have what cools down.
    AddressBlocks,
    /// What nodes list and what pods and machines show. Which addresses cool down is not known.
    NodesAndPods,
}

impl Source {
    pub fn of(index: &Index, subnet: &str) -> Self {
        if index.blocks.has(subnet) {
            Self::AddressBlocks
        } else {
            Self::NodesAndPods
        }
    }
}

/// The number of units in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    pub free: Count,
    pub primary: Count,
    pub leased: Count,
    pub assigned: Count,
    pub cooling_down: Count,
    /// Never given: gateways, name servers, excludes, and what lies outside of the ranges.
    pub set_aside: Count,
}

/// A cell that is not entirely free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cell {
    /// Its place in the window, from 0.
    pub index: usize,
    #[serde(flatten)]
    pub counts: Counts,
    /// Only for a cell of one unit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Map {
    pub subnet: String,
    pub source: Source,
    pub cidrs: Vec<Prefix>,
    pub window: Prefix,
    /// The prefix length of a unit; below, of a cell.
    pub unit_length: u8,
    pub cell_length: u8,
    /// How many cells the window has; those that are not in `cells` are free.
    pub cell_count: usize,
    pub units_per_cell: Count,
    pub counts: Counts,
    pub cells: Vec<Cell>,
}

/// The window of `length` around `from`. Without `length`, it is the whole CIDR that contains
/// `from`; without `from`, the window begins at the first CIDR.
pub fn map(
    index: &Index,
    name: &str,
    from: Option<IpAddr>,
    length: Option<u8>,
    now: Timestamp,
) -> Result<Map, MapError> {
    let found = index.facts.subnets.get(name);
    let subnet = found.ok_or_else(|| MapError::NoSubnet(name.to_owned()))?;
    let space = Space::of(subnet)?;
    let cidr = space.cidr(from)?;
    let window = space.window(cidr, from.unwrap_or(cidr.first()), length)?;
    let layout = space.layout(window.family())?;
    let unit_length = layout.unit_length();
    let cell_length = unit_length.min(window.length().saturating_add(CELL_BITS));
    let source = Source::of(index, name);
    let frame = Frame {
        window,
        unit_length,
        cell_length,
    };
    let states = states::states(index, subnet, source, window, unit_length, now);
    let mut cells = cells(&frame, layout, states);
    if frame.is_single() {
        let details = units::details(index, subnet, source, window, unit_length, now);
        for cell in &mut cells {
            cell.detail = details.get(&frame.cell(cell.index)).cloned();
        }
    }
    let counts = total(&frame, &cells);
    Ok(Map {
        subnet: name.to_owned(),
        source,
        cidrs: space.cidrs.clone(),
        window,
        unit_length,
        cell_length,
        cell_count: frame.cell_count(),
        units_per_cell: Count(frame.units_per_cell()),
        counts,
        cells,
    })
}

struct Space {
    subnet: String,
    cidrs: Vec<Prefix>,
    layouts: BTreeMap<Family, Layout>,
}

impl Space {
    /// For the CIDRs that controllers use, which may be fewer than in the spec.
    fn of(subnet: &Subnet) -> Result<Self, MapError> {
        let name = subnet.name_any();
        let unreadable = |why: String| MapError::Unreadable {
            subnet: name.clone(),
            why,
        };
        let valid = subnet.validate().map_err(|all| {
            let all: Vec<String> = all.iter().map(ToString::to_string).collect();
            unreadable(all.join("; "))
        })?;
        let mut plan = valid.plan;
        plan.cidrs = cidrs(subnet);
        let layouts = plan.layouts().map_err(|error| unreadable(error.to_string()))?;
        Ok(Self {
            subnet: name,
            cidrs: plan.cidrs,
            layouts,
        })
    }

    fn cidr(&self, from: Option<IpAddr>) -> Result<Prefix, MapError> {
        let has = |cidr: &&Prefix| from.is_none_or(|from| cidr.contains(from));
        if let Some(cidr) = self.cidrs.iter().find(has) {
            return Ok(*cidr);
        }
        let cidrs: Vec<String> = self.cidrs.iter().map(ToString::to_string).collect();
        match from {
            Some(from) => Err(MapError::Outside {
                subnet: self.subnet.clone(),
                from,
                cidrs: cidrs.join(", "),
            }),
            None => Err(MapError::NoSubnet(self.subnet.clone())),
        }
    }

    fn window(&self, cidr: Prefix, from: IpAddr, length: Option<u8>) -> Result<Prefix, MapError> {
        let length = length.unwrap_or(cidr.length());
        let longest = self.layout(cidr.family())?.unit_length();
        let window = Prefix::around(from, length);
        let window = window.filter(|window| cidr.covers(*window) && length <= longest);
        window.ok_or(MapError::Length {
            length,
            cidr,
            shortest: cidr.length(),
            longest,
        })
    }

    fn layout(&self, family: Family) -> Result<&Layout, MapError> {
        let missing = || MapError::Unreadable {
            subnet: self.subnet.clone(),
            why: format!("it has no {family}"),
        };
        self.layouts.get(&family).ok_or_else(missing)
    }
}

/// How a window is divided into cells.
struct Frame {
    window: Prefix,
    unit_length: u8,
    cell_length: u8,
}

impl Frame {
    fn cell_count(&self) -> usize {
        1 << (self.cell_length - self.window.length())
    }

    fn units_per_cell(&self) -> u128 {
        1_u128
            .checked_shl(u32::from(self.unit_length - self.cell_length))
            .unwrap_or(u128::MAX)
    }

    fn is_single(&self) -> bool {
        self.unit_length == self.cell_length
    }

    fn index_of(&self, unit: Prefix) -> usize {
        let bits = self.window.family().bits();
        let distance = number(unit.first()) - number(self.window.first());
        let index = distance.checked_shr(u32::from(bits - self.cell_length)).unwrap_or(0);
        usize::try_from(index).unwrap_or(usize::MAX)
    }

    fn cell(&self, index: usize) -> Prefix {
        let first = Prefix::around(self.window.first(), self.cell_length);
        let index = u128::try_from(index).unwrap_or(0);
        first.and_then(|first| first.after(index)).unwrap_or(self.window)
    }
}

fn cells(
    frame: &Frame,
    layout: &Layout,
    units: impl Iterator<Item = (Prefix, State)>,
) -> Vec<Cell> {
    let size = frame.units_per_cell();
    let usable = |index| layout.capacity_of(frame.cell(index));
    let usable: Vec<u128> = (0..frame.cell_count()).map(usable).collect();
    let mut all = vec![(Counts::default(), 0_u128); frame.cell_count()];
    for (unit, state) in units {
        let index = frame.index_of(unit);
        let Some((counts, kept_out)) = all.get_mut(index) else {
            continue;
        };
        counts.of(state).0 += 1;
        // An address that was excluded later may still have an owner, and counts for that owner.
        if usable[index] < size {
            *kept_out += 1 - layout.capacity_of(unit).min(1);
        }
    }
    let cells = all
        .into_iter()
        .enumerate()
        .filter_map(|(index, (mut counts, kept_out))| {
            let set_aside = size.saturating_sub(usable[index]).saturating_sub(kept_out);
            counts.set_aside = Count(set_aside);
            counts.free = Count(size.saturating_sub(counts.given() + set_aside));
            (counts.free.0 < size).then_some(Cell {
                index,
                counts,
                detail: None,
            })
        });
    cells.collect()
}

fn total(frame: &Frame, cells: &[Cell]) -> Counts {
    let mut total = Counts::default();
    for cell in cells {
        for state in State::ALL {
            let mut counts = cell.counts;
            let sum = total.of(state);
            sum.0 = sum.0.saturating_add(counts.of(state).0);
        }
        total.set_aside.0 = total.set_aside.0.saturating_add(cell.counts.set_aside.0);
        total.free.0 = total.free.0.saturating_add(cell.counts.free.0);
    }
    let others = u128::try_from(frame.cell_count() - cells.len()).unwrap_or(u128::MAX);
    let free = others.saturating_mul(frame.units_per_cell());
    total.free.0 = total.free.0.saturating_add(free);
    total
}

impl Counts {
    fn of(&mut self, state: State) -> &mut Count {
        match state {
            State::Primary => &mut self.primary,
            State::Leased => &mut self.leased,
            State::Assigned => &mut self.assigned,
            State::CoolingDown => &mut self.cooling_down,
        }
    }

    fn given(&self) -> u128 {
        self.primary.0 + self.leased.0 + self.assigned.0 + self.cooling_down.0
    }
}
