//! Clients that know nothing of Berth, on a real cluster with `berth controller`: kubectl, and
//! Azure CNS as it is.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod cns;
mod host;
mod kubectl;
mod stage;
