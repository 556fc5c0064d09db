//! Registers Subnets (in a ledger of this process, or at a service), and says in their status how
//! full they are and what is wrong with them.
//!
//! A Subnet that others overlap, or that can't be laid out, is refused with the field and the fix;
//! the others do not notice. A good Subnet that is changed to something invalid goes on as it was.
//! A deleted Subnet stays until nobody owns anything in it: until then nothing else may get the
//! same addresses.

mod decide;
mod exhaustion;
mod index;
mod reconcile;
mod register;
mod restore;
mod service_cidrs;
mod services;
mod status;
mod write;

pub(crate) use exhaustion::Fill;
pub(crate) use index::Subnets;
pub(crate) use reconcile::reconcile;
pub(crate) use restore::restore_all;
pub(crate) use services::follow_services;
pub(crate) use status::published_fill;

/// On a Subnet from before it is registered until nothing in it is owned.
pub const FINALIZER: &str = "berth.dev/subnet";
