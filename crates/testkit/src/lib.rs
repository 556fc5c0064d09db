//! Helpers that tests of several crates share. Only for dev-dependencies.
//!
//! It knows nothing of Berth and uses none of its crates, so that all of them can use it. A helper
//! that needs the types of a crate belongs in that crate's `tests/`.
//!
//! A test fails by panicking, and so do all of these functions. The lints that forbid panics exempt
//! tests (`clippy.toml`): a test program declares itself with `#![cfg(test)]` at its top.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "only tests use it"
)]

mod browser;
#[cfg(feature = "certificates")]
pub mod certificates;
mod clock;
#[cfg(feature = "fuzz")]
pub mod fuzz;
mod namespace;
pub mod stores;
pub mod uptime;
mod wait;

pub use browser::Browser;
pub use clock::on_a_stopped_clock;
pub use namespace::Namespace;
pub use wait::{until, until_ok, until_so, within};
