//! What needs an API server: leader election, events and watches, against one in memory that can
//! fail, delay and lose answers.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod events;
mod follow;
mod lease;
mod server;
