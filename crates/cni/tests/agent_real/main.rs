//! The plugins with the real agent, and plugins of others that delegate to ours, on a real kernel.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod agent;
#[path = "../plugins/call.rs"]
mod call;
mod delegates;
mod full_disk;
mod host_ends;
mod life_cycle;
#[path = "../kernel_real/namespace.rs"]
mod namespace;
#[path = "../../../agent/tests/scene/uptime.rs"]
mod uptime;
