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

/// Between two writes of the same status: while addresses come and go, a person needs no more.
pub const WRITE_INTERVAL: Duration = Duration::from_secs(1);

/// Clones are the same.
#[derive(Clone)]
pub struct Subnets {
    pub context: Context,
    index: Arc<Mutex<SubnetIndex>>,
    all_seen: Arc<watch::Sender<bool>>,
}

#[derive(Default)]
pub struct SubnetIndex {
    synced: bool,
    /// Those that were there at the beginning and have not been looked at yet.
    unseen: BTreeSet<String>,
    pub objects: BTreeMap<String, Arc<Subnet>>,
    pub registered: BTreeMap<String, Registered>,
    /// Those that have a task, to tell when they are fuller or emptier.
    pub followed: BTreeSet<String>,
    /// Those whose spec is not what is registered.
    pub refused: BTreeSet<String>,
    /// When a status was last written.
    pub written: BTreeMap<String, Instant>,
    /// What the cluster gives to Services.
    pub services: Vec<ServiceRange>,
    /// Of those that are being deleted, how many owners were told to be in the way.
    pub deleting: BTreeMap<String, usize>,
    /// The number of this start, by the ledger; 0 until it is known, or where a service has the
    /// ledger.
    pub epoch: u64,
}

/// What was registered of a subnet last, and accepted.
#[derive(Clone)]
pub struct Registered {
    pub plan: Plan,
    pub reuse_delay: Duration,
    pub object: ObjectReference,
}

impl SubnetIndex {
    /// Whether it is not registered any more. Under the lock: whoever registers it next finds
    /// either a task that goes on, or none and starts one.
    pub fn stop_to_follow(&mut self, name: &str) -> bool {
        !self.registered.contains_key(name) && self.followed.remove(name)
    }

    pub fn unregister(&mut self, name: &str) {
        self.registered.remove(name);
        self.written.remove(name);
        self.deleting.remove(name);
        self.refused.remove(name);
    }

    /// Whether they are others than before.
    pub fn set_services(&mut self, ranges: Vec<ServiceRange>) -> bool {
        let changed = self.services != ranges;
        self.services = ranges;
        changed
    }

    /// In the order in which they are to be registered.
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
            all_seen: Arc::new(watch::Sender::new(false)),
            context,
        }
    }

    /// Never held across an await.
    pub fn index(&self) -> MutexGuard<'_, SubnetIndex> {
        self.index.lock()
    }

    pub fn look_at(&self, name: &str) {
        self.context.subnet_queue.add(name.to_owned());
    }

    pub fn look_at_after(&self, name: &str, delay: Duration) {
        self.context.subnet_queue.add_after(name.to_owned(), delay);
    }

    /// Whether this process writes to Subnets. Without it they are registered in its ledger all the
    /// same, as those who write have decided.
    pub fn writes(&self) -> bool {
        self.context.runs(Controller::Subnet)
    }

    pub fn changed(&self, change: &Change<Subnet>) {
        let mut index = self.index();
        match change {
            Change::Apply(subnet) => {
                let name = subnet.name_any();
                index.objects.insert(name.clone(), Arc::clone(subnet));
                // Until all are known it is not known who comes first.
                if index.synced {
                    self.look_at(&name);
                }
            }
            Change::Delete(Key { name, .. }) => {
                index.objects.remove(name);
                self.look_at(name);
            }
            Change::Restarted => {}
            Change::Synced => {
                index.synced = true;
                let subnets = index.by_precedence();
                let names: Vec<String> = subnets.iter().map(|subnet| subnet.name_any()).collect();
                self.all_seen.send_replace(names.is_empty());
                names.iter().for_each(|name| self.look_at(name));
                index.unseen = names.into_iter().collect();
            }
        }
    }

    /// It has been looked at.
    pub fn see(&self, name: &str) {
        let mut index = self.index();
        if index.unseen.remove(name) && index.unseen.is_empty() {
            self.all_seen.send_replace(true);
        }
    }

    /// Waits until all that were there at the beginning have been registered, or can't be.
    pub async fn all_seen(&self) {
        let mut all_seen = self.all_seen.subscribe();
        // The sender is ours: it does not end before.
        let _ = all_seen.wait_for(|all| *all).await;
    }

    pub fn until_next_write(&self, name: &str) -> Duration {
        let written = self.index().written.get(name).copied();
        written.map_or(Duration::ZERO, |written| {
            WRITE_INTERVAL.saturating_sub(written.elapsed())
        })
    }
}
