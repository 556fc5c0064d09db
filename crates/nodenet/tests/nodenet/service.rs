//! The allocator on both of its sides: what holds for one in this process holds for one behind TLS,
//! and what the service refuses.

mod gate;
mod kept;
mod processes;
mod promises;
mod raw;
mod refusals;
mod restarts;
mod subnets;
pub mod world;
