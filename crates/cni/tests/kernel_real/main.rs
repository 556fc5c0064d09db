//! `berth-cni` and the kernel. Each test has network namespaces of its own, one of them in the
//! place of the host's.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod add;
#[path = "../plugins/call.rs"]
mod call;
mod check;
mod del;
mod gc;
mod namespace;
mod node;
#[path = "../plugins/server.rs"]
mod server;
