//! What is known of Subnets: the objects, what was registered of them, and what was written.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_addr::Plan;
use berth_api::Subnet;
use berth_kit::watch::{Change, Key};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::ResourceExt;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::Instant;

use super::decide::precedence;
use super::service_cidrs::ServiceRange;
use crate::context::Context;
use crate::controller::Controller;

/// The time between two writes of the same status: while addresses come and go, people need no
/// more.
pub const WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// Clones share the same state.
#[derive(Clone)]
pub struct Subnets {
    pub context: Context,
    index: Arc<Mutex<SubnetIndex>>,
    all_reconciled: Arc<watch::Sender<bool>>,
}

#[derive(Default)]
pub struct SubnetIndex {
    synced: bool,
    /// Subnets that existed at the start and have not been reconciled yet.
    unreconciled: BTreeSet<String>,
    pub objects: BTreeMap<String, Arc<Subnet>>,
    pub registered: BTreeMap<String, Registered>,
    /// Subnets that have a task, which notices when they are fuller or emptier.
    pub followed: BTreeSet<String>,
    /// Subnets whose spec is not what is registered.
    pub refused: BTreeSet<String>,
    /// When a status was last written.
    pub written: BTreeMap<String, Instant>,
    /// The ranges that the cluster uses for Services.
    pub services: Vec<ServiceRange>,
    /// For Subnets that are being deleted: how many owners the last event reported.
    pub deleting: BTreeMap<String, usize>,
    /// The ledger's number for this start; 0 until it is known, or if a service has the ledger.
    pub epoch: u64,
}

/// What was last registered of a subnet, and accepted.
#[derive(Clone)]
pub struct Registered {
    pub plan: Plan,
    pub reuse_delay: Duration,
    pub object: ObjectReference,
}

impl SubnetIndex {
    /// Returns whether the task must end, as the subnet is not registered any more. The lock is
    /// held: the next registration finds either a task that goes on, or none and starts one.
    pub fn stop_following(&mut self, name: &str) -> bool {
        !self.registered.contains_key(name) && self.followed.remove(name)
    }

    pub fn unregister(&mut self, name: &str) {
        self.registered.remove(name);
        self.written.remove(name);
        self.deleting.remove(name);
        self.refused.remove(name);
    }

    /// Returns whether they have changed.
    pub fn set_services(&mut self, ranges: Vec<ServiceRange>) -> bool {
        let changed = self.services != ranges;
        self.services = ranges;
        changed
    }

    /// The Subnets in the order in which they are registered.
    pub fn by_precedence(&self) -> Vec<Arc<Subnet>> {
        let mut subnets: Vec<Arc<Subnet>> = self.objects.values().cloned().collect();
        subnets.sort_by_key(|subnet| precedence(subnet));
        subnets
    }
}

impl Subnets {
    pub fn new(context: Context) -> Self {
        Self {
            index: Arc::default(),
            all_reconciled: Arc::new(watch::Sender::new(false)),
            context,
        }
    }

    /// Never held across an await.
    pub fn index(&self) -> MutexGuard<'_, SubnetIndex> {
        self.index.lock()
    }

    pub fn enqueue(&self, name: &str) {
        self.context.subnet_queue.add(name.to_owned());
    }

    pub fn enqueue_after(&self, name: &str, delay: Duration) {
        self.context.subnet_queue.add_after(name.to_owned(), delay);
    }

    /// Whether this process writes to Subnets. If not, it registers them in its ledger all the
    /// same, as the processes that write have decided.
    pub fn writes(&self) -> bool {
        self.context.runs(Controller::Subnet)
    }

    pub fn changed(&self, change: &Change<Subnet>) {
        let mut index = self.index();
        match change {
            Change::Apply(subnet) => {
                let name = subnet.name_any();
                index.objects.insert(name.clone(), Arc::clone(subnet));
                // Until all Subnets are known, it is not known which comes first.
                if index.synced {
                    self.enqueue(&name);
                }
            }
            Change::Delete(Key { name, .. }) => {
                index.objects.remove(name);
                self.enqueue(name);
            }
            Change::Restarted => {}
            Change::Synced => {
                index.synced = true;
                let subnets = index.by_precedence();
                let names: Vec<String> = subnets.iter().map(|subnet| subnet.name_any()).collect();
                self.all_reconciled.send_replace(names.is_empty());
                names.iter().for_each(|name| self.enqueue(name));
                index.unreconciled = names.into_iter().collect();
            }
        }
    }

    /// The Subnet has been reconciled.
    pub fn mark_reconciled(&self, name: &str) {
        let mut index = self.index();
        if index.unreconciled.remove(name) && index.unreconciled.is_empty() {
            self.all_reconciled.send_replace(true);
        }
    }

    /// Waits until all Subnets that existed at the start have been registered, or can't be.
    pub async fn all_reconciled(&self) {
        let mut all_reconciled = self.all_reconciled.subscribe();
        // This process holds the sender, so it does not end before.
        let _ = all_reconciled.wait_for(|all| *all).await;
    }

    pub fn until_next_write(&self, name: &str) -> Duration {
        let written = self.index().written.get(name).copied();
        written.map_or(Duration::ZERO, |written| {
            WRITE_INTERVAL.saturating_sub(written.elapsed())
        })
    }
}
