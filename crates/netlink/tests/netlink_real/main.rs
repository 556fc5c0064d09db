//! The crate and the kernel. Each test has network namespaces of its own, which needs root.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod batches;
mod links;
mod lists;
mod namespace;
mod routes;
mod scene;
