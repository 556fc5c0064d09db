//! Cleans up sandboxes that earlier processes left attached.

use berth_kit::queue::Queue;
use parking_lot::Mutex;
use tracing::warn;

use super::index::Index;
use super::network::{BACKOFF, PodNetwork};
use berth_kit::watch::Key;

/// Detaches sandboxes of pods that went while no kubelet was running. The node's pods wait for the
/// cleanup, so that they can get the freed addresses. If it fails, they go on, and it is tried
/// again.
pub async fn collect(
    network: &dyn PodNetwork,
    node: String,
    queue: &Queue<Key>,
    index: &Mutex<Index>,
) {
    network.ready(&node).await;
    for failures in 0.. {
        let valid = index.lock().begin_collecting(&node);
        let outcome = network.keep_only(&node, &valid).await;
        let pods = index.lock().collected(&node);
        pods.into_iter().for_each(|pod| queue.add(pod));
        let Err(error) = outcome else {
            return;
        };
        warn!(
            %error,
            node,
            "cannot detach sandboxes that an earlier process left on the node; retrying"
        );
        tokio::time::sleep(BACKOFF.delay(failures)).await;
    }
}
