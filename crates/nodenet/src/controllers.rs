//! The controllers: they connect Nodes, NodeNetworkConfigs and Subnets to the allocator.
//!
//! Each has facts and an index that the watches feed, pure decisions over them, and a thin
//! reconcile that reads and writes. Leader election is the caller's task: two controllers that run
//! at once get in each other's way, but give no address twice.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use berth_kit::background::Run;
use berth_ledger::{Clock, Kind, NotAnOwner, Owner};
use futures::future::BoxFuture;
use kube::Client;
use kube::runtime::events::Reporter;
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::allocator::Allocator;
use crate::context::{Context, Settings};
use crate::start::start;

pub use crate::controller::{CONTROLLERS, Controller};
pub use crate::metrics::ControllerMetrics;

#[derive(Clone)]
pub struct Options {
    pub client: Client,
    pub allocator: Arc<dyn Allocator>,
    /// The cluster's name in the names of owners. It must stay the same, and must differ between
    /// clusters that share a ledger.
    pub cluster: String,
    pub controllers: BTreeSet<Controller>,
    /// The ledger's clock, so that times in objects match its reuse delays.
    pub clock: Clock,
    pub metrics: ControllerMetrics,
    /// The reporting instance of events: the process's own name, such as its pod's.
    pub instance: Option<String>,
    /// With the same seed and clock a run takes the same steps.
    pub seed: Option<u64>,
    /// How long a Node must have been gone before what it has is taken back.
    pub node_grace: Duration,
    pub stop: CancellationToken,
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Options");
        fields
            .field("cluster", &self.cluster)
            .field("controllers", &self.controllers);
        fields.finish_non_exhaustive()
    }
}

/// Long enough for a node to be registered again after somebody deleted it.
pub const DEFAULT_NODE_GRACE: Duration = Duration::from_secs(2 * 60);

/// Runs the controllers until `stop`, and then ends at once: the next run finds and finishes
/// whatever was under way.
pub fn run(options: Options) -> BoxFuture<'static, Result<(), NotAnOwner>> {
    Box::pin(async move {
        // A cluster name that no owner can have would fail for every node.
        Owner::new(Kind::Primary, &options.cluster, "node", "uid")?;
        let names = options.controllers.iter().map(|controller| controller.name());
        debug!(controllers = names.collect::<Vec<_>>().join(","), "controllers start");
        let reporter = Reporter {
            controller: "berth.dev/controller".to_owned(),
            instance: options.instance.clone(),
        };
        let events = &options.metrics.events;
        let client = options.client.clone();
        let run = Run::start(client, reporter, events, options.seed, &options.stop);

        // This comes before any subnet is registered: none may lease what a node of ours has.
        options.allocator.require_claims(&options.cluster);
        let settings = Settings {
            client: options.client,
            allocator: options.allocator,
            cluster: options.cluster,
            clock: options.clock,
            metrics: options.metrics,
            controllers: options.controllers,
            node_grace: options.node_grace,
        };
        let context = Context::new(settings, run.background());
        start(&context);
        drop(context);
        run.ended().await;
        Ok(())
    })
}
