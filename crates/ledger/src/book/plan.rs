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
        book.vanished.clone_from(&self.vanished);
        for (family, shelf) in &self.families {
            for (number, known) in &shelf.blocks {
                let first = shelf.pool.layout().prefix(number.first_unit());
                let Some(key) = first.map(|first| self.key(first)) else {
                    continue;
                };
                match book.restore(&key, known.version, &known.record, now) {
                    Err(misfit) if misfit.has_owners() => return Err(book.fallen_out(&misfit).into()),
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
}
