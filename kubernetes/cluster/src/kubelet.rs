//! The kubelet of every virtual node: attaches the pods that are bound to it to the network, and
//! reports on them.
//!
//! Nothing runs on a virtual node, so a pod is Running as soon as it has an address: of the network
//! that was handed in, or, where there is none, by whoever writes it into `status.podIPs`; until
//! then the pod says that it waits for one. A deleted pod ends once its sandbox is detached,
//! whatever its grace period. Pods of a Node that was deleted end too. What is left of pods that
//! went while nobody watched is detached at the start.

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

/// The watches that feed the decisions, and the workers that carry them out.
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
                follow(&mut self.nodes, &mut self.pods, &self.queue, &index).await;
            }
            let following = async {
                loop {
                    follow(&mut self.nodes, &mut self.pods, &self.queue, &index).await;
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
            tokio::join!(following, workers, OptionFuture::from(collecting))
        };
        token.run_until_cancelled(work).await;
    }
}

async fn follow(
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
        // Both watches have ended, and with them the process.
        else => std::future::pending().await,
    }
}
