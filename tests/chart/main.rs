//! The chart of `deploy/chart`, by the real Helm: what it renders, and what it does to a cluster.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod full;
mod helm;
mod install;
mod page;
mod reach;
mod remains;
mod rendering;
mod site;
mod watching;
