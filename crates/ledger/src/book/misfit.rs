//! A block of the store that the plan does not have, or not in that form.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use berth_addr::{InUse, Prefix};

use super::Book;
use crate::record::{BlockKey, Record};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    first: Prefix,
    owned: Vec<Prefix>,
}

impl Misfit {
    pub(super) fn new(key: &BlockKey, record: &Record) -> Self {
        let offsets = record.owned().map(|(offset, _)| offset);
        Self {
            first: key.first,
            owned: offsets.filter_map(|offset| unit(key.first, offset)).collect(),
        }
    }

    pub fn has_owners(&self) -> bool {
        !self.owned.is_empty()
    }

    pub fn in_use(&self) -> InUse {
        let unit = self.owned.first().copied().unwrap_or(self.first);
        InUse { unit }
    }
}

impl Book {
    /// Whether an owned unit of it is among ours.
    pub fn crosses(&self, misfit: &Misfit) -> bool {
        misfit.owned.iter().any(|unit| self.has(*unit))
    }

    /// The first owned unit that is not among ours, or else the first one.
    pub(super) fn fallen_out(&self, misfit: &Misfit) -> InUse {
        let fallen = misfit.owned.iter().find(|unit| !self.has(**unit));
        fallen.map_or_else(|| misfit.in_use(), |unit| InUse { unit: *unit })
    }

    fn has(&self, unit: Prefix) -> bool {
        let layout = self.layout(unit.family());
        layout.is_some_and(|layout| layout.cidrs().any(|cidr| cidr.overlaps(unit)))
    }
}

/// The unit so many units after the first one.
fn unit(first: Prefix, offset: u8) -> Option<Prefix> {
    let shift = u32::from(first.family().bits() - first.length());
    let distance = u128::from(offset).checked_shl(shift)?;
    let address = match first.first() {
        IpAddr::V4(address) => {
            let number = u128::from(u32::from(address)).checked_add(distance)?;
            IpAddr::V4(Ipv4Addr::from(u32::try_from(number).ok()?))
        }
        IpAddr::V6(address) => {
            IpAddr::V6(Ipv6Addr::from(u128::from(address).checked_add(distance)?))
        }
    };
    Prefix::around(address, first.length())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_found_from_the_first_of_its_block() {
        let at =
            |first: &str, offset| unit(first.parse().unwrap(), offset).map(|unit| unit.to_string());
        assert_eq!(at("10.0.0.0/32", 200).as_deref(), Some("10.0.0.200/32"));
        assert_eq!(at("10.0.0.0/24", 3).as_deref(), Some("10.0.3.0/24"));
        assert_eq!(at("fd00::/64", 255).as_deref(), Some("fd00:0:0:ff::/64"));
        assert_eq!(at("255.255.255.0/32", 255).as_deref(), Some("255.255.255.255/32"));
        assert_eq!(at("255.255.255.255/32", 1), None);
    }
}
