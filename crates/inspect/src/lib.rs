//! What people ask of a cluster's addresses: what is where ([`status`]), why something waits
//! ([`explain`]), what disagrees ([`check`]).
//!
//! All of it is decided over [`Facts`]: read from the API server at one moment for the commands,
//! kept fresh by watches in the dashboard. Only [`repair`] writes, what a person has seen and asked
//! for.

pub mod check;
pub mod explain;
pub mod facts;
pub mod repair;
pub mod status;

pub use facts::{Facts, GatherError, gather};
