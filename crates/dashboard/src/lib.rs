//! What a browser sees of a cluster's addresses.
//!
//! Watches feed one [`Index`]. [`state`], [`map`](mod@map) and [`history`] compute, purely, what
//! the page shows of it; [`Dashboard`] serves that and the built page. The explanations come from
//! [`berth_inspect`], so that the page and `berth explain` use the same sentences.
//!
//! [`form`] is what people can change here: the networks of Clusters and Machines. It finds errors,
//! purely and by the rules of the controllers. The server writes a correct form for callers with
//! the token, and only over exactly the state that the form was checked against. Reading needs no
//! token, so the server listens on loopback only.

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
