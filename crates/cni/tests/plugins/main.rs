//! The plugins as a runtime sees them, with agents that are away, silent, rude or honest.

#![cfg(test)]

mod add;
mod bad_input;
mod call;
mod del;
mod others;
mod server;
