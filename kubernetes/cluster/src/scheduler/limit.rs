//! A limit on the pods of a node beside its resources. The caller hands in the implementation that
//! counts.

use std::fmt::Debug;

use futures::future::BoxFuture;

/// How many pods a node can still take, counted outside of this crate.
pub trait PodLimit: Debug + Send + Sync {
    /// Why the node does not take the pod. Nodes with the same reason must return the same text.
    fn refuse(&self, pod: &Candidate<'_>, node: &str) -> Option<String>;

    /// Counts the pod at the node from now on, if the node still takes it.
    fn reserve(&self, pod: &Candidate<'_>, node: &str) -> Result<(), String>;

    /// The pod was not bound, so it no longer counts.
    fn release(&self, uid: &str);

    /// Returns when a node that refused a pod may take it now.
    fn changed(&self) -> BoxFuture<'_, ()>;
}

/// A pod that waits for a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    pub uid: &'a str,
    pub host_network: bool,
}
