//! Who owns which address. A pool is address space that hands out units of one length; 256 units
//! make a block, and a block holds the owner and the lease of each owned unit. Over one of four
//! stores, each of which can swap a block only for the version that was read.
//!
//! Not for what owners are: nodes, containers and machines are known here by a line of text.

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
