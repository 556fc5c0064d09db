//! Makes Subnets known to the registry (a ledger in this process, or a service), and says in their
//! status how full they are and what is wrong with them.
//!
//! A Subnet that others overlap, or that can't be laid out, is refused with the field and the fix;
//! the others do not notice. One that was good and was changed to something that can't be, goes on
//! as it was. One that is deleted stays until nobody owns anything in it: until then nothing else
//! may be given the same addresses.

mod apply;
mod decide;
mod exhaustion;
mod facts;
mod known;
mod recall;
mod services;
mod status;
mod write;

pub(crate) use apply::{BACKOFF, Subnets};
pub(crate) use exhaustion::Fill;
pub use facts::Facts;
pub(crate) use status::said;

/// On a Subnet from before the registry knows it until nothing in it is owned.
pub const FINALIZER: &str = "berth.dev/subnet";
