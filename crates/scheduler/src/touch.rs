//! Touches a Node that has room again, so that kube-scheduler tries the pods that wait.
//!
//! kube-scheduler tries a pod that an extender rejected again when something happens that it
//! watches itself. A Subnet that grew and a NodeNetworkConfig that got addresses are none of that;
//! an annotation of the Node that changes is.

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
/// A subnet that grew wakes all of its nodes. Those whose room is taken by then are left alone.
const BETWEEN_TOUCHES: Duration = Duration::from_millis(20);

/// Agents ask for a few addresses as soon as their subnet has some, and have them sooner than this.
const ADDRESS_WAIT: Duration = Duration::from_secs(2);

/// For as long as it is not dropped.
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
                    () = waiting.is_over() => {}
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
                        debug!(node = *node, "it has room again: touched");
                        metrics.touched();
                        node.succeeded();
                    }
                    Err(error) => {
                        warn!(%error, node = *node, "cannot touch the Node; its pods wait until it is tried again");
                        node.failed();
                    }
                }
                tokio::time::sleep(BETWEEN_TOUCHES).await;
            }
        };
        tokio::join!(feed, work);
    })
}

/// Nodes that have room by what their subnet can give, until they have some of it at hand: a pod
/// that comes before its address makes its kubelet try twice, and wait in between.
#[derive(Default)]
struct Waiting {
    until: BTreeMap<String, Instant>,
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.until.is_empty()
    }

    /// Returns when the first of them has waited for long enough.
    async fn is_over(&self) {
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

    /// Those that need not wait any more.
    fn take(&mut self, has_at_hand: impl Fn(&str) -> bool) -> Vec<String> {
        let now = Instant::now();
        let ready = self
            .until
            .extract_if(.., |node, until| *until <= now || has_at_hand(node));
        ready.map(|(node, _)| node).collect()
    }
}

/// The value is for people; that it is another one each time is what counts.
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
    async fn a_node_is_touched_when_it_has_an_address_at_hand_or_has_waited_for_one() {
        let mut waiting = Waiting::default();
        waiting.add(vec!["a".into(), "b".into()]);
        assert_eq!(waiting.take(|node| node == "a"), ["a"]);
        assert_eq!(waiting.take(|_| false), [""; 0]);
        let begin = Instant::now();
        waiting.is_over().await;
        assert_eq!(begin.elapsed(), ADDRESS_WAIT);
        assert_eq!(waiting.take(|_| false), ["b"]);
        assert!(waiting.is_empty());
    }
}
