//! kill -9 at any moment.

#![cfg(test)]

mod agent;
mod up;
