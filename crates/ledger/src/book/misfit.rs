//! A block of the store that does not fit the plan.

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
            owned: offsets.filter_map(|offset| key.first.after(offset.into())).collect(),
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
    /// Whether one of its owned units overlaps this book's CIDRs.
    pub fn crosses(&self, misfit: &Misfit) -> bool {
        misfit.owned.iter().any(|unit| self.has(*unit))
    }

    /// The first owned unit outside this book's CIDRs, or else the first owned one.
    pub(super) fn unit_outside(&self, misfit: &Misfit) -> InUse {
        let outside = misfit.owned.iter().find(|unit| !self.has(**unit));
        outside.map_or_else(|| misfit.in_use(), |unit| InUse { unit: *unit })
    }

    fn has(&self, unit: Prefix) -> bool {
        let layout = self.layout(unit.family());
        layout.is_some_and(|layout| layout.cidrs().any(|cidr| cidr.overlaps(unit)))
    }
}
