//! Gives every NodeNetworkConfig its network container: first an empty one, then as many addresses
//! as its spec asks for, without those that it gives back. If there are too few addresses, the rest
//! follows as soon as there are more. A container belongs to the Node: an nnc that is deleted is
//! made again with all that the node has.
//!
//! It writes status, and nothing of spec. Every write names the version that was read.

mod decide;
mod observed;
mod reconcile;
mod release;
mod request;
mod status;

pub(crate) use decide::{Proposal, Warning, home};
pub(crate) use reconcile::with_pods;
pub(crate) use release::remove_finalizer;
pub(crate) use status::{place, set_scaler};
