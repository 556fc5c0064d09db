//! What the fuzz targets do with an input. `fuzz/` hands them to libFuzzer, which runs without end.
//! The tests here run each on a bounded number of inputs, the same in every run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a fuzz target fails by panicking"
)]

pub mod agent_api;
pub mod agent_journal;
pub mod block_operations;
#[cfg(test)]
mod bounded;
pub mod conf;
pub mod parsing;
