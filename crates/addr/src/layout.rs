//! How address space is divided into units and blocks, and which units are usable at all.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::bitmap::Bitmap;
use crate::family::{Family, number};
use crate::prefix::Prefix;
use crate::range::Range;
use crate::set::AddressSet;
use crate::spans::Spans;
use crate::unit::{BlockNumber, UNITS_PER_BLOCK, Unit};

mod name;

/// A subnet's settings for its address space, both families together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which they are to be tried.
    pub cidrs: Vec<Prefix>,
    /// If a family has ranges, only these are used in that family.
    pub ranges: Vec<Range>,
    pub excludes: Vec<Range>,
    /// Gateways, name servers and the like: kept out if inside the CIDRs, ignored if not.
    pub reservations: Vec<IpAddr>,
    pub unit_lengths: UnitLengths,
    /// Other subnets may use the rest of a CIDR in which this one has ranges, like two pools of
    /// machines in one LAN.
    pub shares_cidrs: bool,
}

/// The length of what is handed out: 32 and 128 are addresses, 24 and 64 might be the podCIDRs of
/// nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitLengths {
    pub ipv4: u8,
    pub ipv6: u8,
}

impl Default for UnitLengths {
    fn default() -> Self {
        Self {
            ipv4: Family::V4.bits(),
            ipv6: Family::V6.bits(),
        }
    }
}

impl UnitLengths {
    pub fn of(self, family: Family) -> u8 {
        match family {
            Family::V4 => self.ipv4,
            Family::V6 => self.ipv6,
        }
    }
}

/// Each message names the field of the Subnet and the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    #[error("cidrs: there is none: name at least one, like 10.64.0.0/16")]
    NoCidr,
    #[error("cidrs: {one} and {other} overlap: remove one of them")]
    Overlap { one: Prefix, other: Prefix },
    #[error(
        "unitLengths: a /{unit_length} can't be cut from {cidr}: use {shortest} to \
         {longest} for {family}",
        shortest = cidr.length(), family = cidr.family(), longest = cidr.family().bits()
    )]
    UnitLength { cidr: Prefix, unit_length: u8 },
    #[error(
        "ranges: {range} is not inside the cidrs: keep both ends inside, or append a \
         CIDR that holds them"
    )]
    RangeOutside { range: Range },
    #[error("excludes: {exclude} is not inside the cidrs: keep both ends inside, or remove it")]
    ExcludeOutside { exclude: Range },
    #[error("cidrs: more {family} units than can be counted: use fewer or smaller CIDRs")]
    TooLarge { family: Family },
}

impl Plan {
    /// One layout for each family that has a CIDR.
    pub fn layouts(&self) -> Result<BTreeMap<Family, Layout>, LayoutError> {
        if self.cidrs.is_empty() {
            return Err(LayoutError::NoCidr);
        }
        let space = self.all_cidrs()?;
        if let Some(&range) = self.ranges.iter().find(|&&range| !space.covers(range)) {
            return Err(LayoutError::RangeOutside { range });
        }
        if let Some(&exclude) = self.excludes.iter().find(|&&range| !space.covers(range)) {
            return Err(LayoutError::ExcludeOutside { exclude });
        }
        Family::ALL
            .into_iter()
            .filter(|&family| space.count(family) > 0)
            .map(|family| Ok((family, Layout::of(self, family)?)))
            .collect()
    }

    /// The space that no other subnet may overlap: all CIDRs, or only the ranges if the CIDRs are
    /// shared.
    pub fn space(&self) -> Result<AddressSet, LayoutError> {
        let cidrs = self.all_cidrs()?;
        if !self.shares_cidrs || self.ranges.is_empty() {
            return Ok(cidrs);
        }
        let ranges: AddressSet = self.ranges.iter().copied().collect();
        let mut space = AddressSet::new();
        for family in Family::ALL {
            // Without ranges in a family, the subnet has all CIDRs of that family.
            let set = if ranges.count(family) > 0 { &ranges } else { &cidrs };
            space.extend(set.ranges().filter(|range| range.family() == family));
        }
        Ok(space)
    }

    fn all_cidrs(&self) -> Result<AddressSet, LayoutError> {
        let mut space = AddressSet::new();
        for (i, &cidr) in self.cidrs.iter().enumerate() {
            if let Some(&other) = self.cidrs[..i].iter().find(|other| other.overlaps(cidr)) {
                return Err(LayoutError::Overlap {
                    one: other,
                    other: cidr,
                });
            }
            space.insert(cidr);
        }
        Ok(space)
    }

    fn kept_out(&self, family: Family, unit_length: u8) -> AddressSet {
        let mut kept_out: AddressSet = self.excludes.iter().copied().collect();
        kept_out.extend(self.reservations.iter().copied());
        if unit_length == family.bits() {
            kept_out.extend(self.cidrs.iter().flat_map(|cidr| unusable_ends(*cidr)));
        }
        kept_out
    }
}

/// Network and broadcast of IPv4 and the subnet-router anycast of IPv6. A pair (/31, /127) and a
/// single address have none.
fn unusable_ends(cidr: Prefix) -> impl Iterator<Item = IpAddr> {
    let pair_or_single = cidr.length() + 1 >= cidr.family().bits();
    let network = (!pair_or_single).then(|| cidr.first());
    let broadcast = (!pair_or_single && cidr.family() == Family::V4).then(|| cidr.last());
    network.into_iter().chain(broadcast)
}

/// The units of one family: their numbers, their blocks, and which of them may be given.
///
/// A CIDR starts on a block of its own, so each block is in one CIDR, and the order of the CIDRs is
/// that of the blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    family: Family,
    unit_length: u8,
    parts: Vec<Part>,
    /// By unit number.
    usable: Spans,
}

/// One CIDR, and the numbers of its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    cidr: Prefix,
    first: u128,
    last: u128,
}

impl Layout {
    fn of(plan: &Plan, family: Family) -> Result<Self, LayoutError> {
        let unit_length = plan.unit_lengths.of(family);
        let mut layout = Self {
            family,
            unit_length,
            parts: Vec::new(),
            usable: Spans::default(),
        };
        let mut next = Some(0);
        for &cidr in plan.cidrs.iter().filter(|cidr| cidr.family() == family) {
            if unit_length < cidr.length() || unit_length > family.bits() {
                return Err(LayoutError::UnitLength { cidr, unit_length });
            }
            let part = next
                .and_then(|first| layout.part(cidr, first))
                .ok_or(LayoutError::TooLarge { family })?;
            layout.parts.push(part);
            next = (part.last | (UNITS_PER_BLOCK - 1)).checked_add(1);
        }
        layout.usable = layout.usable_units(plan);
        Ok(layout)
    }

    fn part(&self, cidr: Prefix, first: u128) -> Option<Part> {
        let units_less_one = self.units(cidr.last_number() - cidr.first_number());
        Some(Part {
            cidr,
            first,
            last: first.checked_add(units_less_one)?,
        })
    }

    /// A distance between addresses, in whole units.
    fn units(&self, distance: u128) -> u128 {
        distance.checked_shr(self.shift()).unwrap_or(0)
    }

    fn shift(&self) -> u32 {
        u32::from(self.family.bits() - self.unit_length)
    }

    /// A unit counts when all of it is in the ranges and none of it is kept out.
    fn usable_units(&self, plan: &Plan) -> Spans {
        let kept_out = plan.kept_out(self.family, self.unit_length);
        let ranges: AddressSet = plan.ranges.iter().copied().collect();
        let ranges = ranges.spans(self.family);
        let unit_mask = self.family.host_mask(self.unit_length);
        let mut usable = Spans::default();
        for part in &self.parts {
            let (start, end) = (part.cidr.first_number(), part.cidr.last_number());
            if ranges.is_empty() {
                usable.insert(part.first, part.last);
            }
            for (first, last) in ranges.within(start, end) {
                // The first unit that begins in the range, and the last that ends in it.
                let begun = (first - start).checked_add(unit_mask);
                let ended = (last - start).checked_sub(unit_mask);
                if let (Some(begun), Some(ended)) = (begun, ended)
                    && self.units(begun) <= self.units(ended)
                {
                    usable.insert(part.first + self.units(begun), part.first + self.units(ended));
                }
            }
            for (first, last) in kept_out.spans(self.family).within(start, end) {
                usable.remove(
                    part.first + self.units(first - start),
                    part.first + self.units(last - start),
                );
            }
        }
        usable
    }

    pub fn family(&self) -> Family {
        self.family
    }

    pub fn unit_length(&self) -> u8 {
        self.unit_length
    }

    pub fn cidrs(&self) -> impl Iterator<Item = Prefix> {
        self.parts.iter().map(|part| part.cidr)
    }

    /// How many units may be given. Saturates.
    pub fn capacity(&self) -> u128 {
        self.usable.count()
    }

    /// How many units may be given inside `part`, which must be at least one unit and inside one
    /// CIDR; else 0. Saturates.
    pub fn capacity_of(&self, part: Prefix) -> u128 {
        let ends = [part.first(), part.last()].map(|end| self.unit_around(end));
        let [Some(first), Some(last)] = ends else {
            return 0;
        };
        if part.length() > self.unit_length || self.part_of(first) != self.part_of(last) {
            return 0;
        }
        let spans = self.usable.within(first.0, last.0);
        spans.fold(0, |sum, (first, last)| {
            sum.saturating_add(last - first).saturating_add(1)
        })
    }

    pub fn prefix(&self, unit: Unit) -> Option<Prefix> {
        let part = self.parts.get(self.part_of(unit)?)?;
        let distance = (unit.0 - part.first).checked_shl(self.shift()).unwrap_or(0);
        let first = self.family.address(part.cidr.first_number() + distance);
        Prefix::around(first, self.unit_length)
    }

    /// `None` if the prefix is outside, or not exactly one unit.
    pub fn unit(&self, prefix: Prefix) -> Option<Unit> {
        (prefix.length() == self.unit_length)
            .then(|| self.unit_around(prefix.first()))
            .flatten()
    }

    /// The unit that an address is in.
    pub fn unit_around(&self, address: IpAddr) -> Option<Unit> {
        let part = self.parts.iter().find(|part| part.cidr.contains(address))?;
        let distance = number(address) - part.cidr.first_number();
        Some(Unit(part.first + self.units(distance)))
    }

    /// The index of the CIDR that a unit is in.
    pub(crate) fn part_of(&self, unit: Unit) -> Option<usize> {
        let i = self.parts.partition_point(|part| part.last < unit.0);
        self.parts.get(i).filter(|part| part.first <= unit.0).map(|_| i)
    }

    /// For each CIDR, the blocks that have a usable unit.
    pub(crate) fn blocks_by_part(&self) -> impl Iterator<Item = Spans> {
        self.parts.iter().map(|part| {
            let mut blocks = Spans::default();
            for (first, last) in self.usable.within(part.first, part.last) {
                blocks.insert(Unit(first).block().0, Unit(last).block().0);
            }
            blocks
        })
    }

    /// The offsets of a block that are in the pool's cidrs, usable or not.
    pub(crate) fn existing(&self, block: BlockNumber) -> Bitmap {
        let part = self.part_of(block.first_unit()).and_then(|i| self.parts.get(i));
        part.map_or(Bitmap::EMPTY, |part| {
            let last = part.last.min(block.unit(u8::MAX).0);
            (0..=Unit(last).offset()).collect()
        })
    }

    /// The offsets of a block that may be given.
    pub(crate) fn usable(&self, block: BlockNumber) -> Bitmap {
        self.usable
            .within(block.first_unit().0, block.unit(u8::MAX).0)
            .flat_map(|(first, last)| Unit(first).offset()..=Unit(last).offset())
            .collect()
    }
}

#[cfg(test)]
mod tests;
