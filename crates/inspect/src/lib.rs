//! Answers about a cluster's addresses: what is where ([`status`]), why something waits
//! ([`explain`]), what disagrees ([`check`]).
//!
//! All answers come from [`Facts`]: the commands read them from the API server at one moment, the
//! dashboard keeps them fresh by watches. Only [`repair`] writes, and only what a person has seen
//! and asked for.

pub mod check;
pub mod explain;
pub mod facts;
pub mod repair;
pub mod status;

pub use facts::{Facts, GatherError, gather};
