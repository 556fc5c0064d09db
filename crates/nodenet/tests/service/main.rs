//! The allocator on both of its sides: what holds for one in this process holds for one behind TLS,
//! and what the service refuses.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod certificates;
mod gate;
mod processes;
mod promises;
mod raw;
mod refusals;
mod restarts;
mod subnets;
mod world;
