//! The agent itself: the pool and the journal behind one lock, and the tasks to wake.
//!
//! Why an answer can be relied on: under the lock, each change is planned, written to the journal
//! and applied, in this order. The answer is sent after that. So all calls have one order, the
//! journal has the same order, and a call whose line could not be written has changed nothing.

mod calls;
mod node;
mod scaling;
mod settle;

pub use settle::Observed;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use berth_addr::scaling::Supply;
use berth_api::agent::{AddressLine, Reason, Refusal, Status};
use berth_api::cni::Attachment;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tracing::{error, warn};

use crate::clock::{Clock, nanoseconds};
use crate::cluster::Cluster;
use crate::journal::{Entry, Found, Journal, JournalError};
use crate::metrics::NodeMetrics;
use crate::pool::{Holding, Pool};

/// The number of ADDs that may wait for an address. The next one is refused at once.
const MAX_WAITING: usize = 128;
/// A shorter journal is not compacted.
const MIN_LINES_TO_COMPACT: usize = 4096;
/// The number of short lines that take as much room as an ADD's line.
const PROBE_LINES: usize = 32;
/// How long a refused ADD counts as demand. By then its runtime has tried again or given up.
const REFUSED_ADD_TTL: Duration = Duration::from_secs(60);
const MAX_REFUSED_ADDS: usize = 1024;
/// Networks whose last GC is remembered: a node has one, or a few.
const MAX_COLLECTED: usize = 64;
/// The shortest time between two measurements of the pool: counting takes longer than serving a
/// call.
const MEASURED_EVERY: Duration = Duration::from_millis(250);

/// Where an agent keeps what it knows, and how.
#[derive(Clone, Debug)]
pub struct Storage {
    pub node: String,
    pub state_dir: PathBuf,
    /// The file that says how long the journal is; better not on the same disk.
    pub mark: PathBuf,
    pub boot: String,
    pub clock: Clock,
    /// How long a released address cools down. It is used earlier only when no other is free.
    pub rest: Duration,
}

/// Shared by all that serve and follow.
#[derive(Clone, Debug)]
pub struct Agent {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    node: String,
    clock: Clock,
    rest: u64,
    metrics: NodeMetrics,
    inside: Mutex<Inside>,
    /// Something has changed that the next write to the cluster may depend on.
    changed: Notify,
    /// An address may be free now.
    came_free: Notify,
    /// A GC has finished.
    collection: Notify,
    waiting: Semaphore,
}

#[derive(Debug)]
struct Inside {
    pool: Pool,
    journal: Journal,
    cluster: Cluster,
    /// When the last GC of each network was started.
    collected: BTreeMap<String, u64>,
    /// ADDs that were refused because no address was free, and when.
    refused_adds: BTreeMap<Attachment, u64>,
    /// Since when no ADD can be served.
    starved: Option<u64>,
    demand: u64,
    /// The number of lines at which the agent next considers compacting the journal.
    compact_at: usize,
    /// When the pool was last measured.
    measured: u64,
    /// Why the last write to the journal failed.
    failing: Option<Refusal>,
}

impl Agent {
    /// Restores the pool from the journal. `Found` tells whether the journal can be trusted. If
    /// not, the pool gives out none of its old addresses until [`Agent::recover`] releases them.
    pub fn open(storage: &Storage, metrics: NodeMetrics) -> Result<(Self, Found), JournalError> {
        let (journal, found) = Journal::open(&storage.state_dir, &storage.mark, &storage.boot)?;
        let mut pool = Pool::default();
        if let Found::Entries { entries, .. } | Found::Untrusted { entries, .. } = &found {
            pool.replay(entries);
        }
        let inside = Inside {
            pool,
            journal,
            cluster: Cluster::default(),
            collected: BTreeMap::new(),
            refused_adds: BTreeMap::new(),
            starved: None,
            demand: 0,
            compact_at: MIN_LINES_TO_COMPACT,
            measured: 0,
            failing: None,
        };
        let shared = Shared {
            node: storage.node.clone(),
            clock: storage.clock,
            rest: nanoseconds(storage.rest),
            metrics,
            inside: Mutex::new(inside),
            changed: Notify::new(),
            came_free: Notify::new(),
            collection: Notify::new(),
            waiting: Semaphore::new(MAX_WAITING),
        };
        let shared = Arc::new(shared);
        Ok((Self { shared }, found))
    }

    pub fn node(&self) -> &str {
        &self.shared.node
    }

    pub fn metrics(&self) -> &NodeMetrics {
        &self.shared.metrics
    }

    pub fn now(&self) -> u64 {
        self.shared.clock.now()
    }

    pub fn addresses(&self) -> Vec<AddressLine> {
        let now = self.now();
        self.shared.inside.lock().pool.lines(now, self.shared.rest)
    }

    pub fn holdings(&self) -> BTreeMap<Attachment, Holding> {
        self.shared.inside.lock().pool.holdings().clone()
    }

    /// When the last GC of each network was started, since this agent was started.
    pub fn collected(&self) -> BTreeMap<String, u64> {
        self.shared.inside.lock().collected.clone()
    }

    /// Waits for the next GC.
    pub async fn next_collection(&self) {
        self.shared.collection.notified().await;
    }

    /// Whether the node's network is in order, and if an ADD can't be served, why not. A pool that
    /// is merely empty is in order: a runtime takes a node that is not ready for broken, and its
    /// pods are evicted.
    pub fn status(&self) -> Status {
        let now = self.now();
        let mut inside = self.shared.inside.lock();
        let served = inside.serves(now);
        let requested = inside.cluster.nnc.as_ref().map_or(0, |nnc| nnc.requested);
        let (ready, message) = match (&served, &inside.cluster.nnc) {
            (_, None) => {
                let message = format!(
                    "there is no NodeNetworkConfig for {}: is `berth controller` \
                     running, and does a Subnet select the node?",
                    self.node()
                );
                (false, message)
            }
            (Ok(()), _) => (true, String::new()),
            (Err(refusal), _) => {
                let is_full =
                    refusal.reason == Reason::PoolEmpty && inside.pool.subnets().next().is_some();
                (is_full && !inside.pool.is_quarantined(), refusal.message.clone())
            }
        };
        Status {
            node: self.shared.node.clone(),
            ready,
            message,
            pool: inside.pool.counts(now, self.shared.rest),
            demand: inside.demand,
            requested: u64::try_from(requested).unwrap_or(0),
            exhausted: inside.cluster.supply(inside.pool.subnets()) != Supply::Enough,
        }
    }

    /// After any change: wakes the waiting tasks and sets the metrics.
    fn changed(&self, inside: &mut Inside) {
        let now = self.now();
        inside.prune_refused_adds(now);
        if let Some(since) = inside.starved.filter(|_| inside.pool.can_serve().is_ok()) {
            inside.starved = None;
            let starved = Duration::from_nanos(now.saturating_sub(since));
            self.shared.metrics.starved(starved);
        }
        if now.saturating_sub(inside.measured) > nanoseconds(MEASURED_EVERY) {
            inside.measured = now;
            self.measure(inside, now);
        }
        self.shared.came_free.notify_waiters();
        self.shared.changed.notify_one();
    }
}

impl Agent {
    fn measure(&self, inside: &Inside, now: u64) {
        self.shared.metrics.pool(inside.pool.counts(now, self.shared.rest));
        self.shared.metrics.journal(inside.journal.length());
    }

    /// Measures the pool now: a burst of calls is not measured call by call.
    pub fn measure_now(&self) {
        let now = self.now();
        let mut inside = self.shared.inside.lock();
        inside.measured = now;
        self.measure(&inside, now);
    }
}

impl Inside {
    /// Writes the entries, then applies them: the only way in which anything changes. Returns how
    /// many addresses came free.
    fn commit(&mut self, entries: &[Entry], now: u64) -> Result<u64, Refusal> {
        if entries.is_empty() {
            return Ok(0);
        }
        if let Err(problem) = self.journal.append(entries) {
            error!(%problem, "cannot write the journal; the change was not made");
            let refusal = storage(&problem);
            self.failing = Some(refusal.clone());
            return Err(refusal);
        }
        self.failing = None;
        let freed = entries.iter().map(|entry| self.pool.apply(entry)).sum();
        self.compact(now);
        Ok(freed)
    }

    /// Whether an ADD of a new attachment would be served. If the last write to the journal failed,
    /// this tries it with entries that change nothing.
    fn serves(&mut self, now: u64) -> Result<(), Refusal> {
        if self.failing.is_some() {
            let nothing = Entry::Freed {
                at: now,
                held: Vec::new(),
            };
            self.commit(&vec![nothing; PROBE_LINES], now)?;
        }
        self.pool.can_serve()
    }

    /// Compacts the journal when most of its lines no longer matter. If that fails, the journal
    /// goes on growing.
    fn compact(&mut self, now: u64) {
        if self.journal.lines() < self.compact_at {
            return;
        }
        self.pool.forget(now);
        let entries = self.pool.entries(now);
        // Compacting is worth it when half of the lines go. Checking costs as much as writing, so
        // the journal must grow by half before the next check.
        let worth = entries.len() <= self.journal.lines() / 2;
        let lines = if worth { entries.len() * 2 } else { self.journal.lines() };
        self.compact_at = MIN_LINES_TO_COMPACT.max(lines + lines / 2);
        if !worth {
            return;
        }
        if let Err(problem) = self.journal.compact(&entries) {
            warn!(%problem, "cannot compact the journal; it keeps growing");
        }
    }

    fn prune_refused_adds(&mut self, now: u64) {
        self.refused_adds
            .retain(|_, at| now.saturating_sub(*at) < nanoseconds(REFUSED_ADD_TTL));
    }

    fn refused_adds(&self) -> u64 {
        u64::try_from(self.refused_adds.len()).unwrap_or(u64::MAX)
    }
}

fn storage(problem: &io::Error) -> Refusal {
    let message = format!(
        "the agent's journal can't be written, so nothing was done: {problem}; make \
         room on its disk"
    );
    Refusal::new(Reason::Storage, message)
}

/// What the kernel calls this boot.
pub fn boot_id() -> io::Result<String> {
    let id = std::fs::read_to_string(Path::new("/proc/sys/kernel/random/boot_id"))?;
    Ok(id.trim().to_owned())
}
