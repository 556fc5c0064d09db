//! The arithmetic of addresses: prefixes, ranges and sets over both families, the units and blocks
//! that a pool hands out, the order in which they are used again, and how large a node's pool
//! should be.
//!
//! It knows what is free and what to give next. It does not know who owns what, or why: owners,
//! leases and stores are the ledger's. Everything here is pure: no I/O, no async, no clock (time
//! comes in as milliseconds), no randomness, and maps iterate in a fixed order, so that the same
//! calls always give the same units. Numbers are integers up to `u128`, and saturate.

mod bitmap;
mod block;
mod family;
mod layout;
mod parse;
mod pool;
mod prefix;
mod range;
pub mod scaling;
mod set;
mod spans;
mod unit;

pub use bitmap::Bitmap;
pub use block::{Block, ClaimError, NotOwned, State};
pub use family::{Family, number};
pub use layout::{Layout, LayoutError, Plan, UnitLengths};
pub use parse::ParseError;
pub use pool::{Counts, InUse, OutsidePool, Pool};
pub use prefix::Prefix;
pub use range::Range;
pub use set::AddressSet;
pub use unit::{BlockNumber, UNITS_PER_BLOCK, Unit};
