//! The process: stands for election, and serves while it leads.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use berth_kit::health::Check;
use berth_kit::lease::{LeaderElection, Term};
use berth_kit::queue::QueueMetrics;
use futures::future::BoxFuture;
use kube::Client;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;

use crate::accounting::Settings;
use crate::books::Books;
use crate::extender::{Extender, Session};
use crate::fit::publish_fit;
use crate::metrics::SchedulerMetrics;
use crate::touch::touch_woken;

/// The Lease that replicas compete for.
pub const LEASE: &str = "berth-scheduler";

/// Bindings under way at the end of a term get this long.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(4);

pub struct Options {
    pub client: Client,
    pub settings: Settings,
    /// `None`: only one replica may run.
    pub election: Option<LeaderElection>,
    /// Ready while it serves.
    pub ready: Check,
    pub queues: QueueMetrics,
    pub metrics: SchedulerMetrics,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").finish_non_exhaustive()
    }
}

/// The verbs, and the work behind them.
#[derive(Debug)]
pub struct Scheduler {
    options: Options,
    extender: Extender,
}

impl Scheduler {
    pub fn new(options: Options) -> Self {
        let extender = Extender::new(options.metrics.clone());
        Self { options, extender }
    }

    pub fn router(&self) -> Router {
        self.extender.router()
    }

    /// Runs until `stop`.
    pub fn run(mut self, stop: CancellationToken) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Some(election) = self.options.election.take() else {
                return self.serve(None, stop).await;
            };
            let mut leadership = election.leadership();
            let standing = tokio::spawn(election.run(stop.clone()));
            self.options.ready.not_ready_because("another replica leads");
            while let Some(term) = leadership.acquired().await {
                self.serve(Some(term), stop.child_token()).await;
                if stop.is_cancelled() {
                    break;
                }
                self.options.ready.not_ready_because("another replica leads");
            }
            // The election releases the lease once nobody holds the term any more.
            let _ = standing.await;
        })
    }

    /// One term. It starts with no knowledge: bindings of the leader before are in the lists that
    /// are read now.
    async fn serve(&self, term: Option<Term>, stop: CancellationToken) {
        let Options { client, settings, .. } = &self.options;
        self.options.ready.not_ready_because("reading all pods");
        let books = Books::new(*settings);
        let tasks = TaskTracker::new();
        books.follow(client, &tasks, &stop);
        let session = Arc::new(Session {
            books: books.clone(),
            client: client.clone(),
            term,
            tasks: tasks.clone(),
            stop: stop.clone(),
        });
        let lost = async {
            match &session.term {
                Some(term) => term.lost().await,
                None => std::future::pending().await,
            }
        };
        let work = async {
            books.synced().await;
            {
                let accounting = books.lock();
                info!(
                    nodes = accounting.node_count(),
                    pods = accounting.pod_count(),
                    pods_that_fit = accounting.pods_that_fit(),
                    "serving the scheduler extender"
                );
            }
            self.extender.serve(Some(session.clone()));
            self.options.ready.ready();
            let metrics = &self.options.metrics;
            let touching =
                touch_woken(books.clone(), client.clone(), &self.options.queues, metrics.clone());
            let publishing = publish_fit(books.clone(), client.clone(), metrics.clone());
            tokio::join!(touching, publishing);
        };
        tokio::select! {
            () = work => {}
            () = lost => info!("no longer leading; refusing requests until it leads again"),
            () = stop.cancelled() => {}
        }
        self.options.ready.not_ready();
        self.extender.serve(None);
        stop.cancel();
        tasks.close();
        drop(session);
        // Watches end at once; a binding under way keeps its session, and with it the term.
        let _ = tokio::time::timeout(DRAIN_TIMEOUT, tasks.wait()).await;
    }
}
