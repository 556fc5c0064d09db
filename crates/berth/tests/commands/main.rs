//! The commands as a person or a script runs them.

#![cfg(test)]

mod agent_returns;
mod allocator;
mod controller;
mod readme;
mod uninstall;
mod up;
