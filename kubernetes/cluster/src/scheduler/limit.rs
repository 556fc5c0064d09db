//! What a node must have for a pod beyond its resources. Who counts it is none of this crate's
//! business: it is handed in.

use std::fmt::Debug;

use futures::future::BoxFuture;

/// Pods that a node can still take, counted by somebody else.
pub trait PodLimit: Debug + Send + Sync {
    /// Why the node does not take the pod: one text for all nodes that lack the same.
    fn refuse(&self, pod: &Candidate<'_>, node: &str) -> Option<String>;

    /// Counts the pod at the node from now on, if the node still takes it.
    fn reserve(&self, pod: &Candidate<'_>, node: &str) -> Result<(), String>;

    /// The pod was not bound: it does not count any more.
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
