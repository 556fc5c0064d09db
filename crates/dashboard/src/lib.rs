//! What a browser sees of a cluster's addresses.
//!
//! Watches feed one [`Index`]; [`state`], [`map`](mod@map) and [`history`] say what is shown of
//! it, purely; [`Dashboard`] serves that, and the built page beside it. What is said of each thing
//! is [`berth_inspect`]'s, so that the page and `berth explain` use the same sentences.
//!
//! [`form`] is what people change here: the networks of Clusters and Machines. It says what is
//! wrong, purely and by the rules that the controllers have; the server writes what is right, over
//! exactly the state that it was checked against, for whoever has the token. Reading needs none,
//! so all of it is for loopback.

mod agents;
pub mod form;
mod guard;
pub mod history;
pub mod index;
pub mod map;
pub mod measures;
mod page;
mod server;
pub mod state;
mod token;
mod watches;

pub use agents::Agents;
pub use index::Index;
pub use measures::Measured;
pub use server::{Dashboard, Options};
pub use token::{TokenError, WriteToken};
