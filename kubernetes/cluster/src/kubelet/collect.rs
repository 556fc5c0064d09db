//! What earlier processes have left attached.

use berth_kit::queue::Queue;
use parking_lot::Mutex;
use tracing::warn;

use super::index::Index;
use super::network::{BACKOFF, PodNetwork};
use berth_kit::watch::Key;

/// Detaches what nobody on the node needs any more: pods may have gone while nobody watched. The
/// node's pods wait for that once, so that what is free can be given to them; when it fails they go
/// on, and it is tried again.
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
        warn!(%error, node, "what pods of an earlier start have left attached cannot be found, it \
                             is tried again");
        tokio::time::sleep(BACKOFF.delay(failures)).await;
    }
}
