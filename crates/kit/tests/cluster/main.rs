//! What needs an API server: leader election, events and watches, against one in memory that can
//! fail, delay and lose answers.

#![cfg(test)]

mod events;
mod follow;
mod lease;
mod server;
