//! How far nodes' addresses have been claimed back, by subnet, and which nodes wait for that. Plain
//! state: the passes are in `claim_back`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use berth_addr::Prefix;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock, mpsc, watch};

use crate::holdings::Conflict;

/// Clones share the same state.
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
    /// Locked for reading while a node is reconciled, for writing by a pass: a pass must not take a
    /// lease that is just being written to a status for a mistake of the ledger.
    turns: Arc<RwLock<()>>,
}

#[derive(Debug, Default)]
struct State {
    /// The subnets that have a task, and how to ask that task for one more pass.
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
    /// Registers a subnet that is new to this process's ledger: what nodes have in it is claimed
    /// before it leases anything.
    pub fn register(&self, subnet: &str) {
        let mut state = self.shared.state.lock();
        if !state.followed.contains_key(subnet) {
            state.followed.insert(subnet.to_owned(), Arc::default());
            self.shared.pending.send_modify(|pending| *pending += 1);
            // The worker runs as long as the controllers do.
            drop(self.shared.registered.send(subnet.to_owned()));
        }
    }

    /// Receives each subnet when it is registered. Only the worker takes it, once.
    pub fn take_registered(&self) -> Option<mpsc::UnboundedReceiver<String>> {
        self.shared.receiver.lock().take()
    }

    /// The subnet is gone. If it is registered again, it is new.
    pub fn unregister(&self, subnet: &str) {
        let mut state = self.shared.state.lock();
        state.followed.remove(subnet);
        state.conflicts.remove(subnet);
    }

    /// Notified when one more pass is requested.
    pub fn requested(&self, subnet: &str) -> Arc<Notify> {
        self.shared
            .state
            .lock()
            .followed
            .get(subnet)
            .cloned()
            .unwrap_or_default()
    }

    /// Requests one more pass, because something does not match.
    pub fn request(&self, subnet: &str) {
        if let Some(requested) = self.shared.state.lock().followed.get(subnet) {
            requested.notify_one();
        }
    }

    /// The node is reconciled again when the subnet opens.
    pub fn wait(&self, subnet: &str, node: &str) {
        let mut state = self.shared.state.lock();
        let waiting = state.waiting.entry(subnet.to_owned()).or_default();
        waiting.insert(node.to_owned());
        if let Some(requested) = state.followed.get(subnet) {
            requested.notify_one();
        }
    }

    /// Takes the nodes that wait for the subnet. The caller must wake them.
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
        // This process holds the sender, so it does not end before.
        let _ = pending.wait_for(|pending| *pending == 0).await;
    }

    /// Held while a node is reconciled.
    pub async fn turn(&self) -> OwnedRwLockReadGuard<()> {
        Arc::clone(&self.shared.turns).read_owned().await
    }

    /// No node is reconciled as long as this lives.
    pub async fn alone(&self) -> OwnedRwLockWriteGuard<()> {
        Arc::clone(&self.shared.turns).write_owned().await
    }

    /// Returns the conflicts that are new.
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

    /// No pod shows the address any more. Returns the node that must be reconciled again.
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
