//! The kubelet of every virtual node: attaches the node's pods to the network, and writes their
//! status.
//!
//! Nothing runs on a virtual node, so a pod is Running as soon as it has an address. The address
//! comes from the network that was handed in. Without a network, an outside client writes it into
//! `status.podIPs`. Until then the pod's status says that it waits for one. A deleted pod ends once
//! its sandbox is detached, whatever its grace period. Pods of a deleted Node end too. At the start
//! the kubelet detaches the sandboxes of pods that went while it was not running.

mod attachment;
mod collect;
mod decide;
mod index;
mod network;
mod status;
mod worker;

use std::sync::Arc;

use berth_kit::clock::Clock;
use berth_kit::events::Recorder;
use berth_kit::queue::Queue;
use futures::future::{OptionFuture, join_all};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::nodes::Fleet;
use crate::writes::CONCURRENCY;
use berth_kit::watch::{Change, Key};
use index::Index;
pub use network::{BACKOFF, PodNetwork, PodNetworkError, Sandbox};
use worker::Worker;

/// The loop around [`Index`]: watches feed the index, and workers act on it.
pub struct Kubelet {
    pub client: Client,
    pub clock: Clock,
    pub fleet: Fleet,
    pub network: Option<Arc<dyn PodNetwork>>,
    pub events: Recorder,
    pub queue: Queue<Key>,
    pub nodes: mpsc::Receiver<Change<Node>>,
    pub pods: mpsc::Receiver<Change<Pod>>,
}

impl Kubelet {
    pub async fn run(mut self, token: CancellationToken) {
        let index = Mutex::new(Index::new(self.network.is_some(), self.fleet.names()));
        let work = async {
            while !index.lock().is_synced() {
                apply_next_change(&mut self.nodes, &mut self.pods, &self.queue, &index).await;
            }
            let applying = async {
                loop {
                    apply_next_change(&mut self.nodes, &mut self.pods, &self.queue, &index).await;
                }
            };
            let worker = Worker {
                client: &self.client,
                clock: self.clock,
                fleet: self.fleet,
                network: self.network.as_deref(),
                events: &self.events,
                queue: &self.queue,
                index: &index,
            };
            let workers = join_all((0..CONCURRENCY).map(|_| worker.run()));
            let collecting = self.network.as_deref().map(|network| {
                let nodes = self.fleet.names();
                join_all(nodes.map(|node| collect::collect(network, node, &self.queue, &index)))
            });
            tokio::join!(applying, workers, OptionFuture::from(collecting))
        };
        token.run_until_cancelled(work).await;
    }
}

async fn apply_next_change(
    nodes: &mut mpsc::Receiver<Change<Node>>,
    pods: &mut mpsc::Receiver<Change<Pod>>,
    queue: &Queue<Key>,
    index: &Mutex<Index>,
) {
    tokio::select! {
        biased;
        Some(change) = nodes.recv() => {
            let pods = index.lock().apply_node(change);
            pods.into_iter().for_each(|pod| queue.add(pod));
        }
        Some(change) = pods.recv() => {
            let pod = index.lock().apply_pod(change);
            pod.into_iter().for_each(|pod| queue.add(pod));
        }
        // Both watches have ended: the process is stopping.
        else => std::future::pending().await,
    }
}
