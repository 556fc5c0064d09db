//! A NodeNetworkConfig for every node that a subnet selects: made with nothing asked for, owned by
//! the Node, and with the finalizer that keeps it until its addresses are back. Everything else in
//! its spec belongs to the agent.

mod decide;
mod reconcile;

pub(crate) use reconcile::ensure_nnc;
