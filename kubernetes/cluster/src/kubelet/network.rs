//! What a kubelet needs of the network of its pods. Who gives the addresses is none of this crate's
//! business: it is handed in.

use std::fmt::Debug;
use std::net::IpAddr;
use std::time::Duration;

use berth_kit::backoff::Exponential;
use futures::future::BoxFuture;

/// A pod without an address is tried at least this often: it can have one as soon as another pod
/// gives one back.
pub const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(20),
    max: Duration::from_secs(10),
};

/// Attaches sandboxes of pods to a network, and detaches them.
///
/// Never two calls at once are about the same pod, and a sandbox is not attached again once its pod
/// has ended. All calls can be repeated, and dropped half-way.
pub trait PodNetwork: Debug + Send + Sync {
    /// Ends once sandboxes of this node can be attached. Until then its pods wait and nothing is
    /// asked for; detaching is possible always.
    fn ready<'a>(&'a self, node: &'a str) -> BoxFuture<'a, ()>;

    /// The addresses that the sandbox has from now on; those that it has already, if it has. When
    /// none is free this may wait so long for one.
    fn attach<'a>(
        &'a self,
        sandbox: &'a Sandbox,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Vec<IpAddr>, PodNetworkError>>;

    /// Gives back what the sandbox has. One that has nothing is detached.
    fn detach<'a>(&'a self, sandbox: &'a Sandbox) -> BoxFuture<'a, Result<(), PodNetworkError>>;

    /// Detaches every sandbox of the node but these. Nothing is attached on the node meanwhile that
    /// was not before.
    fn keep_only<'a>(
        &'a self,
        node: &'a str,
        sandboxes: &'a [String],
    ) -> BoxFuture<'a, Result<(), PodNetworkError>>;
}

/// Why the network did not do it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PodNetworkError(pub String);

/// Where a pod lives on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// 64 hexadecimal digits, as container runtimes have them.
    pub id: String,
    pub node: String,
    pub namespace: String,
    pub name: String,
    /// Of the pod.
    pub uid: String,
}

/// A pod has one sandbox, the same after every start: so a pod that has its addresses already is
/// given them again.
pub fn sandbox_id(uid: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, uid.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_has_the_same_sandbox_always_and_no_other_pod_has_it() {
        let id = sandbox_id("7d44a2a5-9a4f-4c5e-8c60-1c83a1f0d6b1");
        assert!(
            id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit()),
            "{id}"
        );
        assert_eq!(id, sandbox_id("7d44a2a5-9a4f-4c5e-8c60-1c83a1f0d6b1"));
        assert_ne!(id, sandbox_id("7d44a2a5-9a4f-4c5e-8c60-1c83a1f0d6b2"));
    }
}
