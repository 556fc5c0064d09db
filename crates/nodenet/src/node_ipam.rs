//! One podCIDR of each family for every node that a subnet with `use: node-cidrs` takes: leased
//! from the ledger, written to the Node where it has none, and into an `overlay` container of its
//! config. PodCIDRs that somebody else has set are recorded in the ledger as they are, so that
//! nobody else is given them. Off by default, as most clusters have a controller that does this.

mod apply;
mod decide;
mod record;
