//! The plugins on a real kernel.

#![cfg(test)]

mod agent;
#[path = "../plugins/call.rs"]
mod call;
mod kernel;
#[path = "../plugins/server.rs"]
mod server;
