//! What the end-to-end tests share: a cluster with a client, and waits that report what they saw
//! last.

pub mod docs;
mod install;
mod program;
pub mod prometheus;
pub mod rights;
pub mod roles;
mod scene;
pub mod socket;
mod wait;

pub use install::{install, install_subnet};
pub use program::berth;
pub use scene::{Scene, connect};
pub use wait::{Seen, wait_for};
