//! What tests of several crates share. A dev-dependency only.
//!
//! It knows nothing of Berth and uses none of its crates, so that every one of them can use it. A
//! scene that needs a crate's types stands in that crate's `tests/`.
//!
//! A test fails by panicking, and so do all of these functions. The lints that forbid it leave
//! tests alone (`clippy.toml`): a test program says that it is one with `#![cfg(test)]` at its top.

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
