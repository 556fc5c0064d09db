//! Cluster API's claims: an IPAddressClaim whose poolRef names a Subnet gets an IPAddress.
//!
//! ```text
//! claim created ─► lease ─► IPAddress (owned by claim and pool, with a finalizer) ─► status, Ready
//! claim gone    ─► IPAddress goes ─► address back, cools down
//! ```
//!
//! The lease is durable before the IPAddress is made, and ends after it is gone: so no two IPAddress
//! objects ever have one address. The claim needs no finalizer for that: while it is there its lease
//! stays, and when it is gone the IPAddress's own finalizer keeps the address until we have seen it.
//!
//! An IPAddress that is there already is adopted: `clusterctl move` makes it before we see it.

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
use std::time::Duration;

use berth_kit::backoff::Exponential;
use berth_kit::events::{Event, EventMetrics, Recorder};
use berth_kit::queue::{Queue, QueueMetrics};
use berth_ledger::{Clock, Kind, Ledger, NotAnOwner, Owner, gate};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use kube::runtime::events::{EventType, Reporter};
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::warn;

use crate::watch::Name;
use index::Index;
use served::Served;

pub use objects::{ADDRESS, DNS_SERVERS, FAMILY, FINALIZER};

pub const FIELD_MANAGER: &str = "berth-claim";

/// Long enough for objects to be moved here or put back.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(5 * 60);

const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(10),
    max: Duration::from_secs(30),
};

const LAST_EVENTS: Duration = Duration::from_millis(500);

#[derive(Clone)]
pub struct Options {
    pub client: Client,
    /// Whose subnets somebody registers.
    pub ledger: Ledger,
    /// In the names of owners. It must stay the same.
    pub cluster: String,
    pub clock: Clock,
    pub queues: QueueMetrics,
    pub events: EventMetrics,
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
    events: Recorder,
    /// The version of Cluster API's objects that this cluster has.
    served: Arc<Served>,
    /// None of these is held across an await.
    index: Arc<Mutex<Index>>,
    waiting: Arc<Mutex<BTreeSet<Name>>>,
    claimed: Arc<Mutex<BTreeSet<String>>>,
    claiming: Arc<tokio::sync::Mutex<()>>,
    queue: Queue<Name>,
    grace: Duration,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Context {
    fn now(&self) -> Timestamp {
        let millis = i64::try_from(self.clock.now()).unwrap_or(i64::MAX);
        Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled(task).await;
        });
    }

    fn warn(&self, regarding: &ObjectReference, reason: &'static str, note: String) {
        let action = "Allocate";
        let event = Event {
            type_: EventType::Warning,
            reason,
            action,
            note,
            related: None,
        };
        self.events.record(regarding, event);
    }

    fn wake(&self) {
        let waiting: Vec<Name> = self.waiting.lock().iter().cloned().collect();
        waiting.into_iter().for_each(|name| self.queue.add(name));
    }
}

/// Runs until `stop`, and then ends at once: whatever was under way is found and finished by the
/// next run.
pub async fn run(options: Options) -> Result<(), NotAnOwner> {
    Owner::new(Kind::Claim, &options.cluster, "claim", "uid")?;
    let stop = options.stop.child_token();
    let _ended = stop.clone().drop_guard();
    let random = match options.seed {
        Some(seed) => StdRng::seed_from_u64(seed),
        None => StdRng::from_rng(&mut rand::rng()),
    };
    let reporter = Reporter {
        controller: "berth.dev/claim".to_owned(),
        instance: options.instance.clone(),
    };
    let (events, writer) = Recorder::new(options.client.clone(), reporter, &options.events, random);
    let writing = tokio::spawn(writer.run(stop.clone()));
    let Some(served) = stop.run_until_cancelled(Served::find(&options.client)).await else {
        return Ok(());
    };
    let context = Context {
        client: options.client,
        ledger: options.ledger,
        gate: gate(&options.cluster, Kind::Claim).into(),
        cluster: options.cluster.into(),
        clock: options.clock,
        events,
        served: Arc::new(served),
        index: Arc::default(),
        waiting: Arc::default(),
        claimed: Arc::default(),
        claiming: Arc::default(),
        queue: Queue::new("claims", BACKOFF, &options.queues),
        grace: options.grace,
        tasks: TaskTracker::new(),
        stop: stop.clone(),
    };
    context.start();
    stop.cancelled().await;
    context.tasks.close();
    context.tasks.wait().await;
    drop(context);
    let abort = writing.abort_handle();
    if tokio::time::timeout(LAST_EVENTS, writing).await.is_err() {
        abort.abort();
        warn!("the last events could not be written in time");
    }
    Ok(())
}
