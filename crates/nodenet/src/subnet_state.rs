//! Whether a subnet runs short, in a ClusterSubnetState for the agents that draw on it.
//!
//! It decides from the Subnet's own status, so it needs no ledger and can run anywhere.

mod decide;
mod index;
mod reconcile;

pub(crate) use reconcile::{SubnetStates, reconcile};
