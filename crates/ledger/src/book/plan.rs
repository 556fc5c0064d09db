//! Moves the blocks to another plan.

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
    /// A book with the same blocks on another plan. Refused when an owned unit is not in that plan.
    pub fn with_plan(&self, plan: &Plan, reuse_delay: u64, now: u64) -> Result<Self, PlanError> {
        let mut book = Self::new(&self.subnet, plan, reuse_delay)?;
        if plan.shares_cidrs {
            self.check_ranges(plan)?;
        }
        book.vanished.clone_from(&self.vanished);
        for (family, state) in &self.families {
            for (number, known) in &state.blocks {
                let first = state.pool.layout().prefix(number.first_unit());
                let Some(key) = first.map(|first| self.key(first)) else {
                    continue;
                };
                match book.restore(&key, known.version, &known.record, now) {
                    Err(misfit) if misfit.has_owners() => {
                        return Err(book.unit_outside(&misfit).into());
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

    /// Another subnet of the same CIDR may give out units outside the ranges, so none of them may
    /// be owned.
    fn check_ranges(&self, plan: &Plan) -> Result<(), PlanError> {
        let space = plan.space()?;
        for (family, state) in &self.families {
            for (number, known) in &state.blocks {
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
