//! Gives every NodeNetworkConfig its network container: first an empty one, then as many addresses
//! as its spec asks for, without those that it gives back. What there is not enough of comes as
//! soon as there is. A container belongs to the Node: a config that is deleted is made again with
//! all that the node has.
//!
//! It writes status, and nothing of spec. Every write names the version that was read.

mod apply;
pub(crate) mod assignments;
mod decide;
mod facts;
mod observed;
mod release;
pub(crate) mod status;

pub(crate) use apply::{Complaint, Proposal, home};
pub(crate) use decide::is_of;
pub(crate) use facts::version;
pub use facts::{Facts, Owner, Requested};
