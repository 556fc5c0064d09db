//! Wakes the nodes that wait for an address when there is one. Each subnet that a node waits for
//! has one task, which waits for the allocator's notice and does not poll.

mod order;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use berth_kit::backoff::Exponential;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tracing::warn;

use crate::allocator::{Allocator, AllocatorError, SubnetCounts, scarcest};
use crate::metrics::ControllerMetrics;
use berth_kit::background::Background;
pub use order::Need;
use order::Waiting;

/// Delays after an allocator did not answer.
const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(100),
    max: Duration::from_secs(10),
};

/// Clones are the same list.
#[derive(Clone)]
pub struct WaitList {
    shared: Arc<Shared>,
}

struct Shared {
    allocator: Arc<dyn Allocator>,
    metrics: ControllerMetrics,
    background: Background,
    /// Notified when a node begins to wait: then what others have left behind comes back sooner.
    reclaim: Arc<Notify>,
    /// Called with the name of a node that is to ask now.
    wake: Box<dyn Fn(&str) + Send + Sync>,
    /// Never held across an await.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    waiting: Waiting,
    /// The subnets that have a task, and how to notify it that a node has joined or left.
    tasks: BTreeMap<String, Arc<Notify>>,
}

impl fmt::Debug for WaitList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitList").finish_non_exhaustive()
    }
}

impl WaitList {
    pub fn new(
        allocator: Arc<dyn Allocator>,
        metrics: ControllerMetrics,
        background: Background,
        reclaim: Arc<Notify>,
        wake: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                allocator,
                metrics,
                background,
                reclaim,
                wake: Box::new(wake),
                state: Mutex::default(),
            }),
        }
    }

    /// Whether this node may ask for the addresses that are free now.
    pub fn is_next(&self, subnet: &str, node: &str, need: Need) -> bool {
        self.shared.state.lock().waiting.is_next(subnet, node, need)
    }

    /// Adds the node, which is woken when there may be something for it. Returns what it needed
    /// before, if it waited already.
    pub fn join(&self, subnet: &str, node: &str, need: Need) -> Option<Need> {
        let mut state = self.shared.state.lock();
        let before = state.waiting.join(subnet, node, need);
        self.shared.reclaim.notify_one();
        match state.tasks.get(subnet) {
            // The free addresses may be for nodes that wait already, or more than those need.
            Some(changed) => changed.notify_one(),
            None => {
                let changed = Arc::new(Notify::new());
                state.tasks.insert(subnet.to_owned(), Arc::clone(&changed));
                let this = self.clone();
                let subnet = subnet.to_owned();
                let serve = async move { this.serve(&subnet, &changed).await };
                self.shared.background.spawn(serve);
            }
        }
        self.show(&state, subnet);
        before
    }

    pub fn leave(&self, subnet: &str, node: &str) {
        let mut state = self.shared.state.lock();
        if state.waiting.leave(subnet, node) {
            if let Some(changed) = state.tasks.get(subnet) {
                changed.notify_one();
            }
            self.show(&state, subnet);
        }
    }

    /// Whether anybody waits for something of the subnet.
    pub fn is_awaited(&self, subnet: &str) -> bool {
        self.shared.state.lock().waiting.len(subnet) > 0
    }

    pub fn leave_all(&self, node: &str) {
        self.leave_all_but(node, &[]);
    }

    pub fn leave_all_but(&self, node: &str, stay: &[Option<&str>]) {
        let subnets = self.shared.state.lock().waiting.of_node(node);
        let left = subnets.iter().filter(|subnet| !stay.contains(&Some(subnet.as_str())));
        left.for_each(|subnet| self.leave(subnet, node));
    }

    fn show(&self, state: &State, subnet: &str) {
        self.shared.metrics.waiters(subnet, state.waiting.len(subnet));
    }

    /// Runs as long as a node waits. It reads the counts before the list, and again after each
    /// change of either, so that no node can join between the two and be missed.
    async fn serve(&self, subnet: &str, changed: &Notify) {
        let mut failures = 0;
        loop {
            match self.wake_and_wait(subnet, changed).await {
                Ok(true) => failures = 0,
                Ok(false) => return,
                Err(error) => {
                    let delay = BACKOFF.delay(failures);
                    warn!(
                        subnet,
                        %error,
                        "cannot serve the nodes that wait for addresses; retrying in {delay:.1?}"
                    );
                    tokio::time::sleep(delay).await;
                    failures += 1;
                    if self.end_if_nobody_waits(subnet) {
                        return;
                    }
                }
            }
        }
    }

    /// Returns whether to go on.
    async fn wake_and_wait(&self, subnet: &str, changed: &Notify) -> Result<bool, AllocatorError> {
        let Shared { allocator, state, .. } = &*self.shared;
        let counts = allocator.counts(subnet).await?;
        let woken = state.lock().waiting.wake(subnet, available(&counts), counts.freed);
        woken.iter().for_each(|node| (self.shared.wake)(node));
        if self.end_if_nobody_waits(subnet) {
            return Ok(false);
        }
        tokio::select! {
            freed = allocator.freed(subnet, counts.freed) => freed.map(|_| true),
            () = changed.notified() => Ok(true),
        }
    }

    /// The lock is held: the next node that joins finds either a task that will look again, or none
    /// and starts one.
    fn end_if_nobody_waits(&self, subnet: &str) -> bool {
        let mut state = self.shared.state.lock();
        let nobody = state.waiting.len(subnet) == 0;
        if nobody {
            state.tasks.remove(subnet);
        }
        nobody
    }
}

/// How many leases can be had: each takes a unit of every family. Units that cool down count, as
/// their reuse delay is cut short when there are no others.
fn available(counts: &SubnetCounts) -> u128 {
    let scarcest = scarcest(&counts.families);
    scarcest.map_or(0, |counts| counts.free.saturating_add(counts.cooling_down))
}
