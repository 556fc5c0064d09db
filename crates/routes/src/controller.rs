//! The shell: watches feed the index and a queue, one worker decides, the backend is asked, the
//! outcome is published. No rule lives here but when to do what.

mod damping;
mod feed;
mod look;
mod metrics;
mod pace;
mod publish;
mod record;
mod retry;
mod shared;
mod watched;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use berth_addr::Prefix;
use berth_kit::controller::Controller;
use berth_kit::events::Recorder;
use berth_kit::health::Check;
use berth_kit::queue::Queue;
use futures::future::BoxFuture;
use kube::Client;
use kube::runtime::events::Reporter;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio_util::sync::CancellationToken;

use crate::backend::Backend;
use crate::core::Scope;
use feed::Feed;
use retry::QUEUE_BACKOFF;
use shared::Shared;
use worker::Worker;

pub use feed::Key;
pub use metrics::RouteMetrics;
pub use publish::Publish;

/// Events that are left at the end get this long to be written.
const LAST_EVENTS_TIMEOUT: Duration = Duration::from_millis(500);

/// As in upstream's flags.
pub const DEFAULT_RECONCILIATION_PERIOD: Duration = Duration::from_secs(10);
pub const DEFAULT_MIN_RESYNC_PERIOD: Duration = Duration::from_secs(12 * 60 * 60);

/// Not part of `*`: clusters have a cloud controller manager that does the same.
pub const CONTROLLERS: [Controller; 1] = [Controller {
    name: "route",
    is_on_by_default: false,
    rbac: "rbac/route.yaml",
}];

/// The feature gate that lets node events make routes; without it a clock does.
pub const WATCH_BASED_GATE: &str = "CloudControllerManagerWatchBasedRoutesReconciliation";

pub struct Options {
    pub client: Client,
    pub backend: Arc<dyn Backend>,
    /// The cluster CIDRs; `None` for the cidrs of all Subnets with `use: node-cidrs`.
    pub cluster_cidrs: Option<Vec<Prefix>>,
    /// The feature gate [`WATCH_BASED_GATE`].
    pub watch_based: bool,
    /// How often everything is reconciled with the gate off.
    pub reconciliation_period: Duration,
    /// With the gate on, everything is reconciled after this time multiplied by a random 1 to 2.
    pub min_resync_period: Duration,
    pub publish: Publish,
    pub metrics: RouteMetrics,
    /// The reporter of events: the process's own name, such as its pod's.
    pub instance: Option<String>,
    /// With the same seed and clock a run takes the same steps.
    pub seed: Option<u64>,
    /// Ready once all routes were listed; not ready, with the reason, when the backend refuses us.
    pub ready: Option<Arc<Check>>,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Options");
        fields.field("backend", &self.backend.name());
        fields.field("cluster_cidrs", &self.cluster_cidrs);
        fields.field("watch_based", &self.watch_based);
        fields.finish_non_exhaustive()
    }
}

/// Runs the controller until `stop`, then ends at once: the next run finds and finishes what was
/// under way.
pub fn run(options: Options, stop: CancellationToken) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        // Dropping this future stops it, too.
        let stop = stop.child_token();
        let _ended = stop.clone().drop_guard();
        let mut random = match options.seed {
            Some(seed) => StdRng::seed_from_u64(seed),
            None => StdRng::from_rng(&mut rand::rng()),
        };
        let reporter = Reporter {
            controller: "route_controller".to_owned(),
            instance: options.instance.clone(),
        };
        let (events, writer) = Recorder::new(
            options.client.clone(),
            reporter,
            &options.metrics.events,
            StdRng::from_rng(&mut random),
        );
        let writing = tokio::spawn(writer.run(stop.clone()));
        let queue = Queue::new("Routes", QUEUE_BACKOFF, &options.metrics.queues);
        let scope = options.cluster_cidrs.clone().map(Scope::new);
        let shared = Arc::new(Shared::new(scope));
        let _running = options.metrics.running();
        let feed = Feed::new(
            &options,
            shared.clone(),
            queue.clone(),
            StdRng::from_rng(&mut random),
        );
        let worker = Worker::new(options, shared, queue, events, random);
        tokio::select! {
            () = feed.run() => {}
            () = worker.run() => {}
            () = stop.cancelled() => {}
        }
        stop.cancel();
        let abort = writing.abort_handle();
        if tokio::time::timeout(LAST_EVENTS_TIMEOUT, writing)
            .await
            .is_err()
        {
            abort.abort();
            tracing::warn!("the last events were not written in time; dropping them");
        }
    })
}
