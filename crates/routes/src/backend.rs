//! Where routes are: one trait, and a file for each kind.

pub mod aws;
mod error;
mod http;
mod ini;
pub mod linux;
pub mod memory;
pub mod openstack;

use std::fmt;

use berth_addr::Prefix;
use futures::future::BoxFuture;

use crate::core::{Change, Hop, HopError, Mark, Node, Route};

pub use error::{BackendError, ErrorKind};

/// How much a backend takes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls under way at a time.
    pub calls: usize,
    /// Changes in one call.
    pub batch: usize,
}

/// What routes are made in: a kernel, a cloud. It decides nothing: it lists what is there and
/// carries out changes.
pub trait Backend: fmt::Debug + Send + Sync {
    /// As in `--cloud`.
    fn name(&self) -> &'static str;

    fn limits(&self) -> Limits;

    /// How routes that we make are found in the next list: `Ours`, or `Unmarked` where the backend
    /// can't mark.
    fn mark(&self) -> Mark;

    /// How the backend calls a node that is the next hop of a route. Pure.
    fn hop(&self, node: &Node, destination: Prefix) -> Result<Hop, HopError>;

    fn list(&self) -> BoxFuture<'_, Result<Vec<Route>, BackendError>>;

    /// Carries out changes of different destinations, and says what became of each, in their order.
    /// What a change deletes is gone before what it creates is there, or is replaced by it in one
    /// step. A route that is gone already is deleted.
    fn apply<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Vec<Result<(), BackendError>>>;
}
