//! The controllers of `berth up`: virtual nodes, a scheduler, Deployments and ReplicaSets, and a
//! kubelet for every virtual node.
//!
//! All of them use the API only, through a `kube::Client`. Nothing is ever executed: a pod is
//! Running once it has what it needs. The caller hands in the network that gives pods their
//! addresses. Each loop is an index fed by watches, pure decisions over it, and a thin shell that
//! writes.

mod kubelet;
mod nodes;
mod scheduler;
mod workloads;
mod writes;

use std::sync::Arc;
use std::time::Duration;

use berth_kit::clock::Clock;
use berth_kit::events::{EventMetrics, Recorder};
use berth_kit::metrics::Metrics;
use berth_kit::queue::{DEFAULT_BACKOFF, Queue, QueueMetrics};
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::runtime::events::Reporter;
use kube::{Api, Client};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use berth_kit::watch::Feed;
pub use kubelet::{PodNetwork, PodNetworkError, Sandbox};
pub use nodes::{Fleet, TooManyNodes, register as register_nodes};
pub use scheduler::{Candidate, PodLimit};

/// How long the cluster writes the remaining events when it stops.
const LAST_EVENTS: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub struct Options {
    pub fleet: Fleet,
    pub clock: Clock,
    pub metrics: Metrics,
    /// The same seed and clock give a run with the same steps.
    pub seed: Option<u64>,
    /// The network that gives pods their addresses. Without one, an outside client writes them into
    /// `status.podIPs`.
    pub network: Option<Arc<dyn PodNetwork>>,
    /// A limit on the pods of a node beside its resources.
    pub limit: Option<Arc<dyn PodLimit>>,
}

/// The running loops. Dropping it ends them at once.
#[derive(Debug)]
pub struct Cluster {
    loops: JoinSet<()>,
}

impl Cluster {
    /// Registers the nodes and starts the loops. They end when `token` is cancelled.
    pub fn start(
        client: Client,
        options: Options,
        token: CancellationToken,
    ) -> BoxFuture<'static, kube::Result<Self>> {
        Box::pin(async move {
            let Options {
                fleet,
                clock,
                metrics,
                seed,
                network,
                limit,
            } = options;
            let mut random = match seed {
                Some(seed) => StdRng::seed_from_u64(seed),
                None => StdRng::from_rng(&mut rand::rng()),
            };
            nodes::register(&client, fleet, clock).await?;

            let mut loops = JoinSet::new();
            let queue_metrics = metrics.share(QueueMetrics::register);
            let event_metrics = metrics.share(EventMetrics::register);
            let mut recorder = |controller: &str| {
                let reporter = Reporter {
                    controller: controller.to_owned(),
                    instance: None,
                };
                let names = StdRng::from_rng(&mut random);
                let (recorder, writer) =
                    Recorder::new(client.clone(), reporter, &event_metrics, names);
                let token = token.clone();
                loops.spawn(async move {
                    let stopped = async {
                        token.cancelled().await;
                        tokio::time::sleep(LAST_EVENTS).await;
                    };
                    tokio::select! {
                        () = writer.run(token.clone()) => {}
                        () = stopped => {}
                    }
                });
                recorder
            };

            let mut nodes = Feed::<Node>::new(Api::all(client.clone()));
            let mut pods = Feed::<Pod>::new(Api::all(client.clone()));
            let mut deployments = Feed::<Deployment>::new(Api::all(client.clone()));
            let mut replica_sets = Feed::<ReplicaSet>::new(Api::all(client.clone()));
            let scheduler = scheduler::Scheduler {
                client: client.clone(),
                clock,
                events: recorder("default-scheduler"),
                failed: Queue::new("scheduler", DEFAULT_BACKOFF, &queue_metrics),
                nodes: nodes.subscribe(),
                pods: pods.subscribe(),
                limit,
            };
            let kubelet = kubelet::Kubelet {
                client: client.clone(),
                clock,
                fleet,
                network,
                events: recorder("kubelet"),
                queue: Queue::new("kubelet", kubelet::BACKOFF, &queue_metrics),
                nodes: nodes.subscribe(),
                pods: pods.subscribe(),
            };
            let workloads = workloads::Workloads::new(
                client.clone(),
                clock,
                Queue::new("workloads", DEFAULT_BACKOFF, &queue_metrics),
                recorder("deployment-controller"),
                recorder("replicaset-controller"),
            );
            let feeds = workloads::Feeds {
                deployments: deployments.subscribe(),
                replica_sets: replica_sets.subscribe(),
                pods: pods.subscribe(),
            };
            loops.spawn(nodes.run(token.clone()));
            loops.spawn(pods.run(token.clone()));
            loops.spawn(deployments.run(token.clone()));
            loops.spawn(replica_sets.run(token.clone()));
            loops.spawn(scheduler.run(token.clone()));
            loops.spawn(kubelet.run(token.clone()));
            loops.spawn(workloads.run(feeds, token.clone()));
            loops.spawn(nodes::heartbeat(client, fleet, clock, token));
            Ok(Self { loops })
        })
    }

    /// Ends once every loop has ended.
    pub fn stopped(mut self) -> BoxFuture<'static, ()> {
        Box::pin(async move { while self.loops.join_next().await.is_some() {} })
    }
}
