//! The agent by its public names.

#![cfg(test)]

mod compat;
mod embedded;
mod install;
mod kept;
mod people;
mod queue;
mod scene;
mod server;
