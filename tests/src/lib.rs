//! What the end-to-end tests share: a cluster with a client, and waiting that says why it was in
//! vain.

mod install;
mod program;
pub mod roles;
mod scene;
mod wait;

pub use install::{install, install_subnet};
pub use program::berth;
pub use scene::{Scene, connect};
pub use wait::{Seen, wait_for};
