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

/// A place where routes are made: a kernel or a cloud. It decides nothing: it lists routes and
/// carries out changes.
pub trait Backend: fmt::Debug + Send + Sync {
    /// As in `--cloud`.
    fn name(&self) -> &'static str;

    fn limits(&self) -> Limits;

    /// The mark that our routes have in the next list: `Ours`, or `Unmarked` if the backend cannot
    /// mark.
    fn mark(&self) -> Mark;

    /// The name that the backend has for a node as the next hop of a route. Pure.
    fn hop(&self, node: &Node, destination: Prefix) -> Result<Hop, HopError>;

    fn list(&self) -> BoxFuture<'_, Result<Vec<Route>, BackendError>>;

    /// Carries out changes of different destinations, and returns their results in order. A change
    /// deletes its old routes before it creates the new one, or replaces one in a single step. A
    /// route that is already gone counts as deleted.
    fn apply<'a>(&'a self, changes: &'a [Change]) -> BoxFuture<'a, Vec<Result<(), BackendError>>>;
}
