//! How far nodes' addresses have been claimed back, subnet by subnet, and who waits for it. Plain
//! state: the passes are in `claim_back`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use berth_addr::Prefix;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, mpsc, watch};

use crate::holdings::Conflict;

/// Clones are the same.
#[derive(Clone, Debug)]
pub struct Claims {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Never held across an await.
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
    /// The subnets that have a task, and how to ask it for one more pass.
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
    /// A subnet that is new to the ledger of this process: what nodes have in it is claimed before
    /// it leases anything.
    pub fn register(&self, subnet: &str) {
        let mut state = self.shared.state.lock();
        if !state.followed.contains_key(subnet) {
            state.followed.insert(subnet.to_owned(), Arc::default());
            self.shared.pending.send_modify(|pending| *pending += 1);
            // The worker is there for as long as there are controllers.
            drop(self.shared.registered.send(subnet.to_owned()));
        }
    }

    /// The subnets that are registered, as they come: for the worker, once.
    pub fn take_registered(&self) -> Option<mpsc::UnboundedReceiver<String>> {
        self.shared.receiver.lock().take()
    }

    /// The subnet is gone. Whoever registers it again finds it new.
    pub fn unregister(&self, subnet: &str) {
        let mut state = self.shared.state.lock();
        state.followed.remove(subnet);
        state.conflicts.remove(subnet);
    }

    /// Told when one more pass is asked for.
    pub fn requested(&self, subnet: &str) -> Arc<Notify> {
        self.shared
            .state
            .lock()
            .followed
            .get(subnet)
            .cloned()
            .unwrap_or_default()
    }

    /// One more pass: something does not fit.
    pub fn request(&self, subnet: &str) {
        if let Some(requested) = self.shared.state.lock().followed.get(subnet) {
            requested.notify_one();
        }
    }

    /// The node is looked at again when the subnet is open.
    pub fn wait(&self, subnet: &str, node: &str) {
        let mut state = self.shared.state.lock();
        let waiting = state.waiting.entry(subnet.to_owned()).or_default();
        waiting.insert(node.to_owned());
        if let Some(requested) = state.followed.get(subnet) {
            requested.notify_one();
        }
    }

    /// The nodes that wait for the subnet: whoever takes them wakes them.
    pub fn take_waiting(&self, subnet: &str) -> BTreeSet<String> {
        self.shared.state.lock().waiting.remove(subnet).unwrap_or_default()
    }

    /// The subnet has had its first pass, or is gone.
    pub fn passed_first(&self) {
        let one_less = |pending: &mut usize| *pending = pending.saturating_sub(1);
        self.shared.pending.send_modify(one_less);
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

    /// No node is worked on for as long as this lives.
    pub async fn alone(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.shared.turns).write_owned().await
    }

    /// Gives those that are new.
    pub fn set_conflicts(&self, subnet: &str, conflicts: BTreeSet<Conflict>) -> BTreeSet<Conflict> {
        let mut state = self.shared.state.lock();
        let before = state.conflicts.insert(subnet.to_owned(), conflicts.clone());
        conflicts.difference(&before.unwrap_or_default()).cloned().collect()
    }

    pub fn conflicts(&self, subnet: &str) -> BTreeSet<Conflict> {
        self.shared
            .state
            .lock()
            .conflicts
            .get(subnet)
            .cloned()
            .unwrap_or_default()
    }

    pub fn is_in_conflict(&self, subnet: &str, unit: Prefix) -> bool {
        let state = self.shared.state.lock();
        let conflicts = state.conflicts.get(subnet);
        conflicts.is_some_and(|conflicts| conflicts.iter().any(|conflict| conflict.unit == unit))
    }

    /// The units that this node shares with another one.
    pub fn conflicts_of(&self, subnet: &str, node: &str) -> Vec<Prefix> {
        let state = self.shared.state.lock();
        let conflicts = state.conflicts.get(subnet).into_iter().flatten();
        let ours = conflicts.filter(|conflict| conflict.owner == node || conflict.other == node);
        ours.map(|conflict| conflict.unit).collect()
    }

    pub fn withhold(&self, address: IpAddr, node: &str) {
        self.shared.state.lock().withheld.insert(address, node.to_owned());
    }

    /// No pod shows the address any more. Gives the node that is to be looked at again.
    pub fn vanished(&self, address: IpAddr) -> Option<String> {
        let mut state = self.shared.state.lock();
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
}
