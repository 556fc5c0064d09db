//! A NodeNetworkConfig for every node that a subnet takes: made with nothing asked for, owned by
//! the Node, and with the finalizer that keeps it until its addresses are back. Whatever else is in
//! its spec is the agent's.

mod apply;
mod decide;
mod facts;

pub(crate) use apply::reference;
pub use facts::Facts;
