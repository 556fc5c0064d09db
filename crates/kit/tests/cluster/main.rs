//! What needs an API server: leader election and events, against one in memory that can fail, delay and lose answers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod events;
mod lease;
mod server;
