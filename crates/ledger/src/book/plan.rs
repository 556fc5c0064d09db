//! The same blocks on another plan.

use berth_addr::{InUse, LayoutError, Plan};

use super::Book;

/// A plan that can't be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    InUse(#[from] InUse),
}

impl Book {
    /// Refused when an owned unit would fall out; then nothing has changed.
    pub fn planned_as(&self, plan: &Plan, reuse_delay: u64, now: u64) -> Result<Self, PlanError> {
        let mut book = Self::new(&self.subnet, plan, reuse_delay)?;
        if plan.shares_cidrs {
            self.check_ranges(plan)?;
        }
        book.vanished.clone_from(&self.vanished);
        for (family, shelf) in &self.families {
            for (number, known) in &shelf.blocks {
                let first = shelf.pool.layout().prefix(number.first_unit());
                let Some(key) = first.map(|first| self.key(first)) else {
                    continue;
                };
                match book.restore(&key, known.version, &known.record, now) {
                    Err(misfit) if misfit.has_owners() => {
                        return Err(book.fallen_out(&misfit).into());
                    }
                    Err(_) => continue,
                    Ok(()) => {}
                }
                if self.changed.contains(&(*family, *number))
                    && let Some(place) = book.place(&key)
                {
                    book.changed.insert(place);
                }
            }
        }
        Ok(book)
    }

    /// What falls out of the ranges may be given by another subnet of the same CIDR: nobody may
    /// have it.
    fn check_ranges(&self, plan: &Plan) -> Result<(), PlanError> {
        let space = plan.space()?;
        for (family, shelf) in &self.families {
            for (number, known) in &shelf.blocks {
                for (offset, _) in known.record.owned() {
                    let unit = self.prefix(*family, number.unit(offset));
                    if let Some(unit) = unit.filter(|unit| !space.covers(*unit)) {
                        return Err(InUse { unit }.into());
                    }
                }
            }
        }
        Ok(())
    }
}
