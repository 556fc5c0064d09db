//! An agent without a cluster, and calls to it.

pub mod node;
pub mod socket;
