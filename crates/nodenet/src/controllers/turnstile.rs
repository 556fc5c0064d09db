//! Calls those who wait for an address when there is one. One task for each subnet that somebody
//! waits for; it asks the allocator to tell when there is more, and does not look in between.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_kit::backoff::Exponential;
use tokio::sync::Notify;
use tracing::warn;

use super::Context;
use super::line::{Lines, Need};
use crate::allocator::{AllocatorError, Utilization, scarcest};

/// After an allocator that does not answer.
const AGAIN: Exponential = Exponential {
    base: Duration::from_millis(100),
    max: Duration::from_secs(10),
};

/// Clones are the same lines.
#[derive(Clone)]
pub struct Turnstile {
    context: Context,
    state: Arc<Mutex<State>>,
    /// Told the name of a node that is to ask now.
    call: Arc<dyn Fn(&str) + Send + Sync>,
}

#[derive(Default)]
struct State {
    lines: Lines,
    /// The subnets that a task attends to, and how to tell it that its line has changed.
    attended: BTreeMap<String, Arc<Notify>>,
}

impl Turnstile {
    pub fn new(context: Context, call: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            context,
            state: Arc::default(),
            call: Arc::new(call),
        }
    }

    /// No change leaves the state half made, so a panic elsewhere does not matter.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn may_ask(&self, subnet: &str, node: &str, need: Need) -> bool {
        self.state().lines.may_ask(subnet, node, need)
    }

    /// The node is called when there may be something for it. Gives what it needed before, if it
    /// waited already.
    pub fn join(&self, subnet: &str, node: &str, need: Need) -> Option<Need> {
        let mut state = self.state();
        let before = state.lines.join(subnet, node, need);
        // What a node has left behind comes back sooner while somebody waits.
        self.context.gone.notify_one();
        match state.attended.get(subnet) {
            // What is there may be for those who wait already, or more than they need.
            Some(changed) => changed.notify_one(),
            None => {
                let changed = Arc::new(Notify::new());
                state.attended.insert(subnet.to_owned(), Arc::clone(&changed));
                let this = self.clone();
                let subnet = subnet.to_owned();
                self.context.spawn(async move { this.attend(&subnet, &changed).await });
            }
        }
        self.show(&state, subnet);
        before
    }

    pub fn leave(&self, subnet: &str, node: &str) {
        let mut state = self.state();
        if state.lines.leave(subnet, node) {
            if let Some(changed) = state.attended.get(subnet) {
                changed.notify_one();
            }
            self.show(&state, subnet);
        }
    }

    /// Whether anybody waits for something of the subnet.
    pub fn is_awaited(&self, subnet: &str) -> bool {
        self.state().lines.len(subnet) > 0
    }

    pub fn leave_all(&self, node: &str) {
        self.leave_all_but(node, &[]);
    }

    pub fn leave_all_but(&self, node: &str, stay: &[Option<&str>]) {
        let subnets = self.state().lines.of_node(node);
        let left = subnets.iter().filter(|subnet| !stay.contains(&Some(subnet.as_str())));
        left.for_each(|subnet| self.leave(subnet, node));
    }

    fn show(&self, state: &State, subnet: &str) {
        self.context.metrics.waiters(subnet, state.lines.len(subnet));
    }

    /// As long as somebody waits. What there is, is asked before who waits is looked at, and again
    /// after each change of either: so nobody can join between the two and be missed.
    async fn attend(&self, subnet: &str, changed: &Notify) {
        let mut failures = 0;
        loop {
            let outcome = self.call_and_wait(subnet, changed).await;
            match outcome {
                Ok(true) => failures = 0,
                Ok(false) => return,
                Err(error) => {
                    warn!(subnet, %error, "those who wait for an address can't be told when there \
                                           is one");
                    tokio::time::sleep(AGAIN.delay(failures)).await;
                    failures += 1;
                    if self.end_if_nobody_waits(subnet) {
                        return;
                    }
                }
            }
        }
    }

    /// Whether to go on.
    async fn call_and_wait(&self, subnet: &str, changed: &Notify) -> Result<bool, AllocatorError> {
        let utilization = self.context.allocator.utilization(subnet).await?;
        let called = self
            .state()
            .lines
            .call(subnet, available(&utilization), utilization.freed);
        called.iter().for_each(|node| (self.call)(node));
        if self.end_if_nobody_waits(subnet) {
            return Ok(false);
        }
        tokio::select! {
            freed = self.context.allocator.freed(subnet, utilization.freed) => freed.map(|_| true),
            () = changed.notified() => Ok(true),
        }
    }

    /// Under the lock: whoever joins next finds either a task that will look again, or none and
    /// starts one.
    fn end_if_nobody_waits(&self, subnet: &str) -> bool {
        let mut state = self.state();
        let nobody = state.lines.len(subnet) == 0;
        if nobody {
            state.attended.remove(subnet);
        }
        nobody
    }
}

/// How many leases there are: one of each family. The rest of those that were released is cut short
/// when there are no others.
fn available(utilization: &Utilization) -> u128 {
    let scarcest = scarcest(&utilization.families);
    scarcest.map_or(0, |counts| counts.free.saturating_add(counts.resting))
}
