//! Touches a Node that has room again, so that kube-scheduler tries the pods that wait.
//!
//! kube-scheduler retries a pod that an extender rejected only after an event that it watches
//! itself. A grown Subnet and a NodeNetworkConfig with new addresses are no such events; a changed
//! annotation of the Node is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_api::ObservedNode;
use berth_api::names::{ROOM_ANNOTATION, field_manager};
use berth_kit::backoff::Exponential;
use berth_kit::queue::{Queue, QueueMetrics};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{Instant, sleep_until};
use tracing::{debug, warn};

use crate::books::Books;
use crate::metrics::SchedulerMetrics;

const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(100),
    max: Duration::from_secs(30),
};
/// A subnet that grew wakes all of its nodes. By their turn some have no room left, and are
/// skipped.
const TOUCH_INTERVAL: Duration = Duration::from_millis(20);

/// Agents ask for addresses as soon as their subnet has some, and get them sooner than this.
const ADDRESS_WAIT: Duration = Duration::from_secs(2);

/// Runs until it is dropped.
pub fn touch_woken(
    books: Books,
    client: Client,
    queues: &QueueMetrics,
    metrics: SchedulerMetrics,
) -> BoxFuture<'_, ()> {
    Box::pin(async move {
        let queue: Queue<String> = Queue::new("touch", BACKOFF, queues);
        let feed = async {
            let mut changes = books.changes();
            let mut waiting = Waiting::default();
            loop {
                tokio::select! {
                    () = books.woken() => {}
                    changed = changes.changed(), if !waiting.is_empty() => if changed.is_err() {
                        return;
                    },
                    () = waiting.until_next_timeout() => {}
                }
                let mut accounting = books.lock();
                waiting.add(accounting.take_woken());
                let ready = waiting.take(|node| accounting.has_at_hand(node));
                drop(accounting);
                ready.into_iter().for_each(|node| queue.add(node));
            }
        };
        let work = async {
            let nodes: Api<ObservedNode> = Api::all(client);
            while let Some(node) = queue.take().await {
                if !books.lock().still_has_room(&node) {
                    node.succeeded();
                    continue;
                }
                match touch(&nodes, &node).await {
                    Ok(()) => {
                        debug!(node = *node, "touched the Node, which has room again");
                        metrics.touched();
                        node.succeeded();
                    }
                    Err(error) => {
                        warn!(
                            %error,
                            node = *node,
                            "cannot touch the Node, which has room again; retrying"
                        );
                        node.failed();
                    }
                }
                tokio::time::sleep(TOUCH_INTERVAL).await;
            }
        };
        tokio::join!(feed, work);
    })
}

/// Nodes that have room in their subnet and no address at hand yet. A pod that comes before its
/// address makes its kubelet fail once, wait and retry.
#[derive(Default)]
struct Waiting {
    until: BTreeMap<String, Instant>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.until.is_empty()
    }

    /// Returns when the first node has waited long enough.
    async fn until_next_timeout(&self) {
        match self.until.values().min() {
            Some(first) => sleep_until(*first).await,
            None => std::future::pending().await,
        }
    }

    fn add(&mut self, woken: Vec<Arc<str>>) {
        let until = Instant::now() + ADDRESS_WAIT;
        for node in woken {
            self.until.entry(node.to_string()).or_insert(until);
        }
    }

    /// Nodes that need not wait any more.
    fn take(&mut self, has_at_hand: impl Fn(&str) -> bool) -> Vec<String> {
        let now = Instant::now();
        let ready = self
            .until
            .extract_if(.., |node, until| *until <= now || has_at_hand(node));
        ready.map(|(node, _)| node).collect()
    }
}

/// kube-scheduler needs a changed value; the time in it is for people.
async fn touch(nodes: &Api<ObservedNode>, node: &str) -> kube::Result<()> {
    let patch =
        json!({"metadata": {"annotations": {ROOM_ANNOTATION: Timestamp::now().to_string()}}});
    let params = PatchParams {
        field_manager: Some(field_manager::SCHEDULER.to_owned()),
        ..PatchParams::default()
    };
    match nodes.patch_metadata(node, &params, &Patch::Merge(patch)).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        touched => touched.map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_is_touched_once_it_has_an_address_or_after_a_timeout() {
        let mut waiting = Waiting::default();
        waiting.add(vec!["a".into(), "b".into()]);
        assert_eq!(waiting.take(|node| node == "a"), ["a"]);
        assert_eq!(waiting.take(|_| false), [""; 0]);
        let begin = Instant::now();
        waiting.until_next_timeout().await;
        assert_eq!(begin.elapsed(), ADDRESS_WAIT);
        assert_eq!(waiting.take(|_| false), ["b"]);
        assert!(waiting.is_empty());
    }
}
