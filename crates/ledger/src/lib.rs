//! Who owns which address. A pool is address space that hands out units of one length; 256 units
//! make a block, and a block holds the owner and the lease of each owned unit. There are four
//! stores, and each of them swaps a block only against the version that was read.
//!
//! The crate does not know what owners are: a node, a network container or a machine is a line of
//! text here.

mod book;
mod clock;
mod committer;
mod error;
mod ledger;
mod metrics;
mod owner;
mod plans;
mod record;
pub mod store;

pub use book::{Claim, Claimed, Grant, Lease, PlanError, Refusal};
pub use clock::Clock;
pub use committer::{Outlook, SubnetCounts};
pub use error::LedgerError;
pub use ledger::Ledger;
pub use metrics::LedgerMetrics;
pub use owner::{Kind, NotAnOwner, Owner, gate};
pub use plans::check_format;
pub use record::{BlockKey, Contradiction, LeaseId, Record, Tenure};
