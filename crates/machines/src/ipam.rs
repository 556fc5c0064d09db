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

use berth_api::machines::flag::NetworkFlag;
use berth_kit::background::{Background, Run};
use berth_kit::backoff::Exponential;
use berth_kit::events::EventMetrics;
use berth_kit::queue::{Queue, QueueMetrics};
use berth_ledger::{Clock, Kind, Ledger, NotAnOwner, Owner, gate};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use kube::runtime::events::Reporter;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use index::{Index, Key};

use crate::metrics::{MachineMetrics, OwnerMetrics};
use crate::waiting::Waiting;

pub use berth_api::machines::BYPASS;
pub use berth_api::machines::flag::NETWORK_LABEL;

/// On a Machine from before it has an address until that is back.
pub const FINALIZER: &str = "berth.dev/machine-address";

/// The condition that says whether a Machine has its network.
pub const NETWORK_ALLOCATED: &str = "NetworkAllocated";

pub const FIELD_MANAGER: &str = "berth-machine-ipam";

/// Long enough for a backup to be put back after somebody deleted the Machines.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(5 * 60);

const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(10),
    max: Duration::from_secs(30),
};

#[derive(Clone)]
pub struct Options {
    /// A client of the cluster that has the Machines.
    pub client: Client,
    /// Somebody else registers its subnets.
    pub ledger: Ledger,
    /// The cluster's name in the names of owners. It must stay the same.
    pub cluster: String,
    /// Networks to make Subnets of. Without any, machines draw on Subnets that have the label.
    pub networks: Vec<NetworkFlag>,
    pub clock: Clock,
    pub queues: QueueMetrics,
    pub events: EventMetrics,
    pub metrics: MachineMetrics,
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
    /// None of these is held across an await.
    index: Arc<Mutex<Index>>,
    /// By the Machine's UID: the network that the ledger is known to have.
    recorded: Arc<Mutex<BTreeMap<String, String>>>,
    /// Pools that lease to us: everything that machines have of them was claimed.
    claimed: Arc<Mutex<BTreeSet<String>>>,
    /// One pass at a time.
    claiming: Arc<tokio::sync::Mutex<()>>,
    queue: Queue<Key>,
    waiting: Waiting<Key>,
    metrics: OwnerMetrics,
    /// The Subnets of the networks that the process was given.
    expected: Arc<[String]>,
    grace: Duration,
    background: Background,
}

impl Context {
    fn now(&self) -> Timestamp {
        self.clock.timestamp()
    }

    /// Queues the machines that got no address.
    fn wake(&self) {
        self.waiting.all().into_iter().for_each(|key| self.queue.add(key));
    }
}

/// Runs until `stop`, and then ends at once: the next run finds and finishes whatever was under
/// way.
pub fn run(options: Options) -> BoxFuture<'static, Result<(), NotAnOwner>> {
    Box::pin(async move {
        // A cluster name that no owner can have would fail for every machine.
        Owner::new(Kind::Machine, &options.cluster, "machine", "uid")?;
        let reporter = Reporter {
            controller: "berth.dev/machine-ipam".to_owned(),
            instance: options.instance,
        };
        let client = options.client.clone();
        let run = Run::start(client, reporter, &options.events, options.seed, &options.stop);
        let metrics = options.metrics.of_machines();
        let context = Context {
            client: options.client,
            ledger: options.ledger,
            gate: gate(&options.cluster, Kind::Machine).into(),
            cluster: options.cluster.into(),
            clock: options.clock,
            index: Arc::default(),
            recorded: Arc::default(),
            claimed: Arc::default(),
            claiming: Arc::default(),
            queue: Queue::new("machines", BACKOFF, &options.queues),
            waiting: Waiting::new(metrics.waiting.clone()),
            metrics,
            expected: options.networks.iter().map(NetworkFlag::subnet_name).collect(),
            grace: options.grace,
            background: run.background(),
        };
        context.start(options.networks);
        drop(context);
        run.ended().await;
        Ok(())
    })
}
