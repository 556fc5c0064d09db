//! The agent by its public names.

#![cfg(test)]

/// Whole clusters of small objects: the C library's takes an eighth of the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod compat;
mod embedded;
mod install;
mod kept;
mod people;
mod queue;
mod scene;
mod server;
