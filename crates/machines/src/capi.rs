//! Cluster API's claims: an IPAddressClaim whose poolRef names a Subnet gets an IPAddress.
//!
//! ```text
//! claim created ─► lease ─► IPAddress (owned by claim and pool, with a finalizer) ─► status, Ready
//! claim gone    ─► IPAddress goes ─► address back, cools down
//! ```
//!
//! The lease is durable before the IPAddress is created, and ends after it is gone. So no two
//! IPAddress objects ever have one address. The claim needs no finalizer for that: its lease stays
//! as long as it exists, and when it is gone the IPAddress's own finalizer keeps the address until
//! we have observed that.
//!
//! An IPAddress that exists already is adopted: `clusterctl move` creates it before we observe it.

mod allocate;
mod claims;
mod decide;
mod index;
mod objects;
mod reclaim;
mod served;
mod status;
mod watches;
mod worker;
mod write;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use berth_kit::background::{Background, Run};
use berth_kit::backoff::Exponential;
use berth_kit::events::EventMetrics;
use berth_kit::queue::{Queue, QueueMetrics};
use berth_kit::watch::Key;
use berth_ledger::{Clock, Kind, Ledger, NotAnOwner, Owner, gate};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use kube::runtime::events::Reporter;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use index::Index;
use served::Served;

use crate::metrics::{MachineMetrics, OwnerMetrics};
use crate::waiting::Waiting;

pub use objects::{ADDRESS, DNS_SERVERS, FAMILY, FINALIZER};

pub const FIELD_MANAGER: &str = "berth-claim";

/// Long enough for objects to be moved here or put back.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(5 * 60);

const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(10),
    max: Duration::from_secs(30),
};

#[derive(Clone)]
pub struct Options {
    pub client: Client,
    /// Somebody else registers its subnets.
    pub ledger: Ledger,
    /// The cluster's name in the names of owners. It must stay the same.
    pub cluster: String,
    pub clock: Clock,
    pub queues: QueueMetrics,
    pub events: EventMetrics,
    pub metrics: MachineMetrics,
    pub instance: Option<String>,
    pub seed: Option<u64>,
    /// How long a claim must have been gone before its address is taken back, when nobody saw it
    /// go.
    pub grace: Duration,
    pub stop: CancellationToken,
}

impl fmt::Debug for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Options")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct Context {
    client: Client,
    ledger: Ledger,
    cluster: Arc<str>,
    gate: Arc<str>,
    clock: Clock,
    /// The version of Cluster API's objects that this cluster has.
    served: Arc<Served>,
    /// None of these is held across an await.
    index: Arc<Mutex<Index>>,
    claimed: Arc<Mutex<BTreeSet<String>>>,
    /// All watches have reported what existed.
    is_synced: Arc<AtomicBool>,
    claiming: Arc<tokio::sync::Mutex<()>>,
    queue: Queue<Key>,
    waiting: Waiting<Key>,
    metrics: OwnerMetrics,
    grace: Duration,
    background: Background,
}

impl Context {
    fn now(&self) -> Timestamp {
        self.clock.timestamp()
    }

    fn wake(&self) {
        self.waiting.all().into_iter().for_each(|name| self.queue.add(name));
    }
}

/// Runs until `stop`, and then ends at once: the next run finds and finishes whatever was under
/// way.
pub fn run(options: Options) -> BoxFuture<'static, Result<(), NotAnOwner>> {
    Box::pin(async move {
        Owner::new(Kind::Claim, &options.cluster, "claim", "uid")?;
        let reporter = Reporter {
            controller: "berth.dev/claim".to_owned(),
            instance: options.instance,
        };
        let client = options.client.clone();
        let run = Run::start(client, reporter, &options.events, options.seed, &options.stop);
        let Some(served) = run.until_stopped(Served::find(&options.client)).await else {
            run.ended().await;
            return Ok(());
        };
        let metrics = options.metrics.of_claims();
        let context = Context {
            client: options.client,
            ledger: options.ledger,
            gate: gate(&options.cluster, Kind::Claim).into(),
            cluster: options.cluster.into(),
            clock: options.clock,
            served: Arc::new(served),
            index: Arc::default(),
            claimed: Arc::default(),
            is_synced: Arc::default(),
            claiming: Arc::default(),
            queue: Queue::new("claims", BACKOFF, &options.queues),
            waiting: Waiting::new(metrics.waiting.clone()),
            metrics,
            grace: options.grace,
            background: run.background(),
        };
        context.start();
        drop(context);
        run.ended().await;
        Ok(())
    })
}
