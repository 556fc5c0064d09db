//! Runs a pass for every subnet when it is registered, when the ledger has lost something of it,
//! and when a node asks for one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_addr::Prefix;
use berth_kit::backoff::Exponential;
use berth_kit::queue::Queue;
use tokio::sync::{Notify, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, mpsc, watch};
use tracing::warn;

use super::decide::Conflict;
use super::pass::pass;
use crate::allocator::AllocatorError;
use crate::controllers::{Failure, Nodes};

const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(100),
    max: Duration::from_secs(10),
};

/// Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Claims {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    registered: mpsc::UnboundedSender<String>,
    receiver: Mutex<Option<mpsc::UnboundedReceiver<String>>>,
    /// How many subnets have not had their first pass.
    pending: watch::Sender<usize>,
    /// Read while a node is worked on, written by a pass: what a pass takes for the ledger's
    /// mistake must not be a lease that is just being written to a status.
    turns: Arc<RwLock<()>>,
}

#[derive(Debug, Default)]
struct State {
    followed: BTreeMap<String, Arc<Notify>>,
    /// The nodes that wait for a subnet to open.
    waiting: BTreeMap<String, BTreeSet<String>>,
    conflicts: BTreeMap<String, BTreeSet<Conflict>>,
    /// Addresses that agents give back although a living pod shows them, and the node.
    withheld: BTreeMap<IpAddr, String>,
}

impl Default for Claims {
    fn default() -> Self {
        let (registered, receiver) = mpsc::unbounded_channel();
        Self {
            shared: Arc::new(Shared {
                state: Mutex::default(),
                registered,
                receiver: Mutex::new(Some(receiver)),
                pending: watch::Sender::new(0),
                turns: Arc::default(),
            }),
        }
    }
}

impl Claims {
    /// Never held across an await. No change leaves it half made, so a panic elsewhere does not
    /// matter.
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A subnet that is new to the ledger of this process: what nodes have in it is claimed before
    /// it leases anything.
    pub fn register(&self, subnet: &str) {
        let mut state = self.state();
        if !state.followed.contains_key(subnet) {
            state.followed.insert(subnet.to_owned(), Arc::default());
            self.shared.pending.send_modify(|pending| *pending += 1);
            // The worker is there for as long as there are controllers.
            drop(self.shared.registered.send(subnet.to_owned()));
        }
    }

    /// One more pass: something does not fit.
    pub fn request(&self, subnet: &str) {
        if let Some(requested) = self.state().followed.get(subnet) {
            requested.notify_one();
        }
    }

    /// The node is looked at again when the subnet is open.
    pub fn wait(&self, subnet: &str, node: &str) {
        let mut state = self.state();
        state
            .waiting
            .entry(subnet.to_owned())
            .or_default()
            .insert(node.to_owned());
        if let Some(requested) = state.followed.get(subnet) {
            requested.notify_one();
        }
    }

    /// Returns when every subnet that is registered by now has had its first pass.
    pub async fn settled(&self) {
        let mut pending = self.shared.pending.subscribe();
        // The sender is ours: it does not end before.
        let _ = pending.wait_for(|pending| *pending == 0).await;
    }

    /// For as long as a node is worked on.
    pub async fn turn(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.shared.turns).read_owned().await
    }

    pub(super) async fn alone(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.shared.turns).write_owned().await
    }

    /// Those that are new.
    pub(super) fn set_conflicts(
        &self,
        subnet: &str,
        conflicts: BTreeSet<Conflict>,
    ) -> BTreeSet<Conflict> {
        let mut state = self.state();
        let before = state.conflicts.insert(subnet.to_owned(), conflicts.clone());
        conflicts.difference(&before.unwrap_or_default()).cloned().collect()
    }

    pub fn conflicts(&self, subnet: &str) -> BTreeSet<Conflict> {
        self.state().conflicts.get(subnet).cloned().unwrap_or_default()
    }

    pub fn is_in_conflict(&self, subnet: &str, unit: Prefix) -> bool {
        let state = self.state();
        let conflicts = state.conflicts.get(subnet);
        conflicts.is_some_and(|conflicts| conflicts.iter().any(|conflict| conflict.unit == unit))
    }

    /// The units that this node shares with another one.
    pub fn conflicts_of(&self, subnet: &str, node: &str) -> Vec<Prefix> {
        let state = self.state();
        let conflicts = state.conflicts.get(subnet).into_iter().flatten();
        let ours = conflicts.filter(|conflict| conflict.owner == node || conflict.other == node);
        ours.map(|conflict| conflict.unit).collect()
    }

    pub fn withhold(&self, address: IpAddr, node: &str) {
        self.state().withheld.insert(address, node.to_owned());
    }

    /// A pod does not show it any more: who is to look again.
    pub fn shown_no_more(&self, address: IpAddr) -> Option<String> {
        let mut state = self.state();
        let unit = Prefix::from(address);
        for (subnet, conflicts) in &state.conflicts {
            if conflicts.iter().any(|conflict| conflict.unit == unit)
                && let Some(requested) = state.followed.get(subnet)
            {
                requested.notify_one();
            }
        }
        state.withheld.remove(&address)
    }

    /// For the lifetime of the controllers. `subnets` is told whose conflicts have changed.
    pub async fn run(&self, nodes: Nodes, subnets: Queue<String>) {
        let receiver = {
            let mut receiver = self.shared.receiver.lock().unwrap_or_else(PoisonError::into_inner);
            receiver.take()
        };
        let Some(mut receiver) = receiver else {
            return;
        };
        while let Some(subnet) = receiver.recv().await {
            let (this, nodes, subnets) = (self.clone(), nodes.clone(), subnets.clone());
            let context = nodes.context.clone();
            context.spawn(async move { this.follow(&subnet, &nodes, &subnets).await });
        }
    }

    /// As long as the subnet is registered.
    async fn follow(&self, subnet: &str, nodes: &Nodes, subnets: &Queue<String>) {
        let requested = self.state().followed.get(subnet).cloned().unwrap_or_default();
        let (mut failures, mut is_first) = (0, true);
        loop {
            let before = self.conflicts(subnet);
            let passed = pass(nodes, subnet).await;
            if passed.is_ok() && std::mem::take(&mut is_first) {
                self.passed_first();
            }
            let generation = match passed {
                Ok(generation) => generation,
                Err(failure) => {
                    if self.ends(subnet, nodes, &failure) {
                        if is_first {
                            self.passed_first();
                        }
                        // It may have been registered again at this moment.
                        if nodes
                            .context
                            .allocator
                            .generation(subnet, &nodes.context.cluster)
                            .await
                            .is_ok()
                        {
                            self.register(subnet);
                        }
                        return;
                    }
                    warn!(subnet, %failure, "what nodes have can't be claimed; retrying");
                    tokio::time::sleep(BACKOFF.delay(failures)).await;
                    failures += 1;
                    continue;
                }
            };
            failures = 0;
            self.wake(subnet, nodes);
            if self.conflicts(subnet) != before {
                subnets.add(subnet.to_owned());
            }
            let allocator = &nodes.context.allocator;
            tokio::select! {
                // A subnet that is gone is found by the next pass.
                lost = allocator.lost(subnet, &nodes.context.cluster, generation) => if lost.is_err() {
                    tokio::time::sleep(BACKOFF.delay(failures)).await;
                    failures += 1;
                },
                () = requested.notified() => {}
            }
        }
    }

    fn passed_first(&self) {
        let one_less = |pending: &mut usize| *pending = pending.saturating_sub(1);
        self.shared.pending.send_modify(one_less);
    }

    fn wake(&self, subnet: &str, nodes: &Nodes) {
        let waiting = self.state().waiting.remove(subnet).unwrap_or_default();
        for node in waiting {
            nodes.index().look_at(&node);
            nodes.queue.add(node);
        }
    }

    /// Whether the subnet is gone. Whoever registers it again finds it new.
    fn ends(&self, subnet: &str, nodes: &Nodes, failure: &Failure) -> bool {
        let is_gone = matches!(failure, Failure::Allocator(AllocatorError::NoSubnet { .. }));
        if !is_gone {
            return false;
        }
        {
            let mut state = self.state();
            state.followed.remove(subnet);
            state.conflicts.remove(subnet);
        }
        self.wake(subnet, nodes);
        true
    }
}
