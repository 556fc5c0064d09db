//! The pod network as a kubelet uses it. The caller hands in the implementation that gives
//! addresses.

use std::fmt::Debug;
use std::net::IpAddr;
use std::time::Duration;

use berth_kit::backoff::Exponential;
use futures::future::BoxFuture;

/// The back-off of a pod without an address. It is short, since another pod may give an address
/// back at any time.
pub const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(20),
    max: Duration::from_secs(10),
};

/// Attaches sandboxes of pods to a network, and detaches them.
///
/// No two calls for the same pod run at once, and a sandbox is not attached again once its pod has
/// ended. All calls can be repeated, and dropped half-way.
pub trait PodNetwork: Debug + Send + Sync {
    /// Ends once sandboxes of this node can be attached. Until then its pods wait, and only
    /// `detach` is called.
    fn ready<'a>(&'a self, node: &'a str) -> BoxFuture<'a, ()>;

    /// Returns the addresses of the sandbox: those it has already, else new ones. If none is free,
    /// this may wait up to `wait` for one.
    fn attach<'a>(
        &'a self,
        sandbox: &'a Sandbox,
        wait: Duration,
    ) -> BoxFuture<'a, Result<Vec<IpAddr>, PodNetworkError>>;

    /// Gives back the addresses of the sandbox. This succeeds if it has none.
    fn detach<'a>(&'a self, sandbox: &'a Sandbox) -> BoxFuture<'a, Result<(), PodNetworkError>>;

    /// Detaches every sandbox of the node except these. No new sandbox is attached on the node
    /// meanwhile.
    fn keep_only<'a>(
        &'a self,
        node: &'a str,
        sandboxes: &'a [String],
    ) -> BoxFuture<'a, Result<(), PodNetworkError>>;
}

/// Why the network refused a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PodNetworkError(pub String);

/// The sandbox of a pod on its node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// 64 hexadecimal digits, as with container runtimes.
    pub id: String,
    pub node: String,
    pub namespace: String,
    pub name: String,
    /// The UID of the pod.
    pub uid: String,
}

/// The ID of a pod's one sandbox. It is the same after every start, so a pod gets the addresses
/// that it already has.
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
