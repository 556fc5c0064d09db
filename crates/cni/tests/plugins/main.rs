//! The plugins as a runtime sees them, with agents that are away, silent, rude or honest.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod add;
mod bad_input;
mod call;
mod del;
mod others;
mod server;
