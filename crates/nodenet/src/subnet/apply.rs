//! Works through Subnets, one at a time.

use berth_kit::watch::{Change, Key};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::Subnet;
use berth_kit::backoff::Exponential;
use berth_kit::queue::Queue;
use kube::{Resource, ResourceExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::FINALIZER;
use super::decide::{Verdict, accepted, precedence};
use super::known::Known;
use super::services::ServiceRange;
use super::status::leaving;
use crate::allocator::Removal;
use crate::controllers::{Context, Controller, Failure};

pub(crate) const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(10),
    max: Duration::from_secs(60),
};

/// How often one that was refused is tried again, where others can make room for it without anybody
/// here being told.
const BETWEEN_TRIES: Duration = Duration::from_secs(10);

/// Clones are the same.
#[derive(Clone)]
pub(crate) struct Subnets {
    pub(super) context: Context,
    state: Arc<Mutex<State>>,
    pub queue: Queue<String>,
    all_seen: Arc<watch::Sender<bool>>,
}

#[derive(Default)]
pub(super) struct State {
    synced: bool,
    /// Those that were there at the beginning and have not been looked at yet.
    unseen: BTreeSet<String>,
    pub objects: BTreeMap<String, Arc<Subnet>>,
    pub known: BTreeMap<String, Known>,
    /// Those that a task attends to, to tell when they are fuller or emptier.
    pub followed: BTreeSet<String>,
    /// Those whose spec is not what the registry follows.
    pub refused: BTreeSet<String>,
    /// When a status was last written.
    pub written: BTreeMap<String, Instant>,
    /// What the cluster gives to Services.
    pub services: Vec<ServiceRange>,
    /// Of those that are to go, how many owners were told to be in the way.
    pub leaving: BTreeMap<String, usize>,
}

impl Subnets {
    pub fn new(context: Context) -> Self {
        Self {
            queue: context.subnet_queue.clone(),
            state: Arc::default(),
            all_seen: Arc::new(watch::Sender::new(false)),
            context,
        }
    }

    /// Never held across an await. No change leaves it half made, so a panic elsewhere does not
    /// matter.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn changed(&self, change: &Change<Subnet>) {
        let mut state = self.state();
        match change {
            Change::Apply(subnet) => {
                let name = subnet.name_any();
                state.objects.insert(name.clone(), Arc::clone(subnet));
                // Until all are known it is not known who comes first.
                if state.synced {
                    self.queue.add(name);
                }
            }
            Change::Delete(Key { name, .. }) => {
                state.objects.remove(name);
                self.queue.add(name.clone());
            }
            Change::Restarted => {}
            Change::Synced => {
                state.synced = true;
                let mut subnets: Vec<&Arc<Subnet>> = state.objects.values().collect();
                subnets.sort_by_key(|subnet| precedence(subnet));
                let names: Vec<String> = subnets.iter().map(|subnet| subnet.name_any()).collect();
                self.all_seen.send_replace(names.is_empty());
                state.unseen = names.iter().cloned().collect();
                names.into_iter().for_each(|name| self.queue.add(name));
            }
        }
    }

    /// Waits until all that were there at the beginning have been made known to the registry, or
    /// can't be.
    pub async fn seen(&self) {
        let mut all_seen = self.all_seen.subscribe();
        // The sender is ours: it does not end before.
        let _ = all_seen.wait_for(|all| *all).await;
    }

    /// Whether this process writes to Subnets. Without it they are made known to its ledger all the
    /// same, as those who write have decided.
    pub(super) fn writes(&self) -> bool {
        self.context.runs(Controller::Subnet)
    }

    pub async fn reconcile(self, name: String) -> Result<(), Failure> {
        let done = self.look_at(&name).await;
        let mut state = self.state();
        if state.unseen.remove(&name) && state.unseen.is_empty() {
            self.all_seen.send_replace(true);
        }
        drop(state);
        let category = done.as_ref().err().map_or("ok", Failure::category);
        self.context.metrics.reconciled(Controller::Subnet, category);
        done
    }

    async fn look_at(&self, name: &str) -> Result<(), Failure> {
        let subnet = self.state().objects.get(name).cloned();
        match subnet {
            Some(subnet) if self.writes() => self.keep(name, &subnet).await,
            Some(subnet) => self.mirror(name, &subnet).await,
            None => self.forget(name).await,
        }
    }

    async fn keep(&self, name: &str, subnet: &Arc<Subnet>) -> Result<(), Failure> {
        let deleting = subnet.metadata.deletion_timestamp.is_some();
        let held = subnet.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        let subnet = match (deleting, held) {
            (_, true) => Arc::clone(subnet),
            // Others may still hold it; it is none of ours any more.
            (true, false) => return self.forget(name).await,
            // Before anything is handed out: from then on the Subnet can't go while somebody owns a
            // part of it.
            (false, false) => match self.set_finalizer(name, subnet, true).await? {
                Some(subnet) => subnet,
                None => return Ok(()),
            },
        };
        let mut verdict = match subnet.validate() {
            Ok(valid) => self.make_known(name, &subnet, valid).await?,
            Err(refusals) => Verdict::of_refusals(&refusals),
        };
        match verdict {
            Verdict::Ready => self.state().refused.remove(name),
            _ => self.state().refused.insert(name.to_owned()),
        };
        // What another process has registered in the same store, nobody here is told of when it
        // goes.
        let elsewhere = matches!(verdict, Verdict::Overlapping { .. });
        if verdict != Verdict::Ready && (elsewhere || self.context.allocator.is_shared()) {
            self.queue.add_after(name.to_owned(), BETWEEN_TRIES);
        }
        if deleting {
            let Removal::InUse { owners } = self.context.allocator.remove_subnet(name).await?
            else {
                return self.let_go(name, &subnet).await;
            };
            verdict = Verdict::Leaving { owners };
            if self.state().leaving.insert(name.to_owned(), owners) != Some(owners) {
                self.context.warn(
                    &subnet.object_ref(&()),
                    "SubnetInUse",
                    "Delete",
                    leaving(owners),
                );
            }
        }
        let counts = self.counts(name).await?;
        self.write(name, &subnet, &verdict, counts).await
    }

    /// It has left the registry. Until its finalizer is off it may be made known again, and nothing
    /// is handed out of it meanwhile.
    async fn let_go(&self, name: &str, subnet: &Subnet) -> Result<(), Failure> {
        self.unlearn(name);
        if self.set_finalizer(name, subnet, false).await?.is_some() {
            self.state().objects.remove(name);
        }
        Ok(())
    }

    /// Nothing is decided here: it is made known as those who decide have accepted it.
    async fn mirror(&self, name: &str, subnet: &Subnet) -> Result<(), Failure> {
        if let Some(accepted) = accepted(subnet) {
            self.make_known(name, subnet, accepted).await?;
        }
        Ok(())
    }
}
