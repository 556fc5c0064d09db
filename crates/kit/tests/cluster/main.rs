//! Leader election, events and watches, with an API server in memory that can fail, delay and lose
//! answers.

#![cfg(test)]

mod events;
mod follow;
mod lease;
mod server;
