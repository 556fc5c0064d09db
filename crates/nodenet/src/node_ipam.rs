//! One podCIDR of each family for every node that a subnet with `use: node-cidrs` selects: leased,
//! written to the Node where it has none, and into an `overlay` container of its nnc. PodCIDRs that
//! somebody else has set are recorded in the ledger as they are, so that nobody else is given them.
//! Off by default, as most clusters have a controller that does this.

mod decide;
mod reconcile;
mod record;

pub(crate) use reconcile::with_pod_cidrs;
pub(crate) use record::{record_again, record_unselected};
