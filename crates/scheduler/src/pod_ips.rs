//! The controller `pod-ips`: publishes how many pods each Node has an IP for, as the extended
//! resource `berth.dev/pod-ips`.
//!
//! A second front end over the accounting. Pods ask for one each (an admission policy adds that),
//! and kube-scheduler does the rest: it subtracts, queues, preempts.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use berth_api::ObservedNode;
use berth_api::names::{POD_IPS, field_manager};
use berth_kit::backoff::Exponential;
use berth_kit::controller::{Controller, Group};
use berth_kit::queue::{Queue, QueueMetrics};
use futures::future::BoxFuture;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use parking_lot::Mutex;
use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, info, warn};

use crate::accounting::{Publication, Settings};
use crate::books::Books;
use crate::fit::publish_fit;
use crate::metrics::SchedulerMetrics;

/// As `--controllers` names it.
pub const CONTROLLER: Controller = Controller {
    name: "pod-ips",
    is_on_by_default: false,
    rbac: "rbac/pod-ips.yaml",
};

const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(100),
    max: Duration::from_secs(30),
};
/// While many pods change, the figures are compared at most this often.
const COMPARE_INTERVAL: Duration = Duration::from_millis(200);
const CONCURRENCY: usize = 8;

#[derive(Clone)]
pub struct PodIps {
    pub client: Client,
    pub settings: Settings,
    pub queues: QueueMetrics,
    pub metrics: SchedulerMetrics,
}

impl std::fmt::Debug for PodIps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PodIps").finish_non_exhaustive()
    }
}

type Targets = Arc<Mutex<BTreeMap<String, Option<u64>>>>;

impl PodIps {
    pub fn group(self) -> Group {
        Group::new([CONTROLLER], move |_, stop| {
            let run = self.clone().run(stop);
            async move {
                run.await;
                Ok::<(), Infallible>(())
            }
        })
    }

    /// Runs until `stop`. Begins by reading everything: it does not depend on an earlier process.
    pub fn run(self, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let books = Books::new(self.settings);
            let tasks = TaskTracker::new();
            books.follow(&self.client, &tasks, &stop);
            let work = async {
                books.synced().await;
                info!("publishing {POD_IPS}");
                let queue = Queue::new(CONTROLLER.name, BACKOFF, &self.queues);
                let targets = Targets::default();
                tokio::join!(
                    queue_outdated(books.clone(), queue.clone(), targets.clone()),
                    write_all(Api::all(self.client.clone()), queue, targets),
                    publish_fit(books.clone(), self.client.clone(), self.metrics.clone()),
                );
            };
            tokio::select! {
                () = work => {}
                () = stop.cancelled() => {}
            }
            stop.cancel();
            tasks.close();
            tasks.wait().await;
        })
    }
}

/// Queues the nodes whose published value is out of date.
async fn queue_outdated(books: Books, queue: Queue<String>, targets: Targets) {
    let mut changes = books.changes();
    loop {
        let publications = books.lock().publications();
        for (node, publication) in publications {
            if !publication.is_done() {
                let Publication { target, .. } = publication;
                targets.lock().insert(node.to_string(), target);
                queue.add(node.to_string());
            }
        }
        tokio::time::sleep(COMPARE_INTERVAL).await;
        if changes.changed().await.is_err() {
            return;
        }
    }
}

async fn write_all(nodes: Api<ObservedNode>, queue: Queue<String>, targets: Targets) {
    let mut running = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            Some(_) = running.join_next() => {}
            node = queue.take(), if running.len() < CONCURRENCY => {
                let Some(node) = node else {
                    return;
                };
                let target = targets.lock().remove(&*node);
                let nodes = nodes.clone();
                let targets = targets.clone();
                running.spawn(async move {
                    let Some(target) = target else {
                        return node.succeeded();
                    };
                    match write(&nodes, &node, target).await {
                        Ok(()) => {
                            debug!(node = *node, ?target, "published the pod IPs of the node");
                            node.succeeded();
                        }
                        Err(error) => {
                            // Keeps a newer target if there is one by now.
                            targets.lock().entry(node.clone()).or_insert(target);
                            warn!(%error, node = *node, "cannot publish {POD_IPS}; retrying");
                            node.failed();
                        }
                    }
                });
            }
        }
    }
}

/// Writes both at once: a kubelet derives allocatable from capacity, but only at its next report.
async fn write(nodes: &Api<ObservedNode>, node: &str, target: Option<u64>) -> kube::Result<()> {
    let value = target.map(|target| target.to_string());
    let patch = json!({"status": {"capacity": {POD_IPS: value}, "allocatable": {POD_IPS: value}}});
    let params = PatchParams {
        field_manager: Some(field_manager::POD_IPS.to_owned()),
        ..PatchParams::default()
    };
    match nodes.patch_status(node, &params, &Patch::Merge(patch)).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        written => written.map(drop),
    }
}
