//! Machine IPAM: gives every gated machine its network, and opens the gate.
//!
//! ```text
//! Machine created ─► gate on (admission) ─► finalizer ─► lease ─► network + gate off, in one write
//! Machine deleted ─► its builder lets go ─► address back, cools down ─► finalizer off
//! ```
//!
//! One worker takes all machines that wait at a time: their leases share one write of the ledger,
//! and their own writes run side by side. Two processes that both work get in each other's way, but
//! give no address twice: the ledger's compare-and-swap decides.
//!
//! Subnets must be registered with the ledger by somebody else: the subnet controller.

mod allocate;
mod claims;
mod condition;
mod decide;
pub mod flag;
mod index;
mod pools;
mod reclaim;
mod subnets;
mod watches;
mod worker;
mod write;

use std::collections::{BTreeMap, BTreeSet};
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

use flag::NetworkFlag;
use index::{Index, Key};

pub use pools::NETWORK_LABEL;

/// On a Machine from before it has an address until that is back.
pub const FINALIZER: &str = "berth.dev/machine-address";

/// Lets the webhook of machine-controller take a change of a Machine's spec.
pub const BYPASS: &str = "kubermatic.io/bypass-no-spec-mutation-requirement";

/// The condition that says whether a Machine has its network.
pub const NETWORK_ALLOCATED: &str = "NetworkAllocated";

pub const FIELD_MANAGER: &str = "berth-machine-ipam";

/// Long enough for a backup to be put back after somebody deleted the Machines.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(5 * 60);

const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(10),
    max: Duration::from_secs(30),
};

/// What is left of events at the end gets this long to be written.
const LAST_EVENTS: Duration = Duration::from_millis(500);

#[derive(Clone)]
pub struct Options {
    /// Of the cluster that has the Machines.
    pub client: Client,
    /// Whose subnets somebody registers.
    pub ledger: Ledger,
    /// In the names of owners. It must stay the same.
    pub cluster: String,
    /// Networks to make Subnets of. Without any, machines draw on Subnets that have the label.
    pub networks: Vec<NetworkFlag>,
    pub clock: Clock,
    pub queues: QueueMetrics,
    pub events: EventMetrics,
    pub instance: Option<String>,
    pub seed: Option<u64>,
    /// How long a Machine must have been gone before its address is taken back, when it did not go
    /// by its finalizer.
    pub grace: Duration,
    pub stop: CancellationToken,
}

impl fmt::Debug for Options {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = out.debug_struct("Options");
        fields.field("cluster", &self.cluster).field("networks", &self.networks);
        fields.finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct Context {
    client: Client,
    ledger: Ledger,
    cluster: Arc<str>,
    /// The name of our gate in the ledger.
    gate: Arc<str>,
    clock: Clock,
    events: Recorder,
    /// None of these is held across an await.
    index: Arc<Mutex<Index>>,
    waiting: Arc<Mutex<BTreeSet<Key>>>,
    /// By UID: the network that the ledger is known to have.
    recorded: Arc<Mutex<BTreeMap<String, String>>>,
    /// Pools that lease to us, as everything that machines have of them was claimed.
    claimed: Arc<Mutex<BTreeSet<String>>>,
    /// One pass at a time.
    claiming: Arc<tokio::sync::Mutex<()>>,
    queue: Queue<Key>,
    /// The Subnets of the networks that the process was given.
    expected: Arc<[String]>,
    grace: Duration,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl Context {
    fn now(&self) -> Timestamp {
        let millis = i64::try_from(self.clock.now()).unwrap_or(i64::MAX);
        Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
    }

    /// For the lifetime of the controller, in the background.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            stop.run_until_cancelled(task).await;
        });
    }

    fn warn(&self, regarding: &ObjectReference, reason: &'static str, action: &'static str, note: String) {
        let event = Event {
            type_: EventType::Warning,
            reason,
            action,
            note,
            related: None,
        };
        self.events.record(regarding, event);
    }

    /// Those who went away without an address try again.
    fn wake(&self) {
        let waiting: Vec<Key> = self.waiting.lock().iter().cloned().collect();
        waiting.into_iter().for_each(|key| self.queue.add(key));
    }
}

/// Runs until `stop`, and then ends at once: whatever was under way is found and finished by the
/// next run.
pub async fn run(options: Options) -> Result<(), NotAnOwner> {
    // A name that no owner can have would fail for every machine alike.
    Owner::new(Kind::Machine, &options.cluster, "machine", "uid")?;
    let stop = options.stop.child_token();
    let _ended = stop.clone().drop_guard();
    let random = match options.seed {
        Some(seed) => StdRng::seed_from_u64(seed),
        None => StdRng::from_rng(&mut rand::rng()),
    };
    let reporter = Reporter {
        controller: "berth.dev/machine-ipam".to_owned(),
        instance: options.instance.clone(),
    };
    let (events, writer) = Recorder::new(options.client.clone(), reporter, &options.events, random);
    let writing = tokio::spawn(writer.run(stop.clone()));
    let context = Context {
        client: options.client,
        ledger: options.ledger,
        gate: gate(&options.cluster, Kind::Machine).into(),
        cluster: options.cluster.into(),
        clock: options.clock,
        events,
        index: Arc::default(),
        waiting: Arc::default(),
        recorded: Arc::default(),
        claimed: Arc::default(),
        claiming: Arc::default(),
        queue: Queue::new("machines", BACKOFF, &options.queues),
        expected: options.networks.iter().map(NetworkFlag::subnet_name).collect(),
        grace: options.grace,
        tasks: TaskTracker::new(),
        stop: stop.clone(),
    };
    context.start(options.networks);
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
