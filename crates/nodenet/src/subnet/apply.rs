//! Works through Subnets, one at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::Subnet;
use berth_kit::backoff::Exponential;
use berth_kit::queue::Queue;
use berth_ledger::Ledger;
use kube::{Resource, ResourceExt};
use tokio::sync::watch;
use tokio::time::Instant;

use super::FINALIZER;
use super::decide::{Verdict, has_served, precedence, scarcest};
use super::known::Known;
use super::status::leaving;
use crate::allocator::AllocatorError;
use crate::controllers::{Change, Context, Controller, Failure};

const AGAIN: Exponential = Exponential {
    base: Duration::from_millis(10),
    max: Duration::from_secs(60),
};

/// How often an allocator that is a service is asked how full a subnet is: it does not tell by itself.
const BETWEEN_LOOKS: Duration = Duration::from_secs(10);

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
    /// Those whose spec is not what the ledger follows.
    pub refused: BTreeSet<String>,
    /// When a status was last written.
    pub written: BTreeMap<String, Instant>,
    /// Of those that are to go, how many owners were told to be in the way.
    pub leaving: BTreeMap<String, usize>,
}

impl Subnets {
    pub fn new(context: Context) -> Self {
        Self {
            queue: Queue::new("subnets", AGAIN, &context.metrics.queues),
            state: Arc::default(),
            all_seen: Arc::new(watch::Sender::new(false)),
            context,
        }
    }

    /// Never held across an await. No change leaves it half made, so a panic elsewhere does not matter.
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
            Change::Delete(name) => {
                state.objects.remove(name);
                self.queue.add(name.clone());
            }
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

    /// Waits until all that were there at the beginning have been made known to the ledger, or can't be.
    pub async fn seen(&self) {
        let mut all_seen = self.all_seen.subscribe();
        // The sender is ours: it does not end before.
        let _ = all_seen.wait_for(|all| *all).await;
    }

    /// Whether this process writes to Subnets. Without it they are made known to its ledger all the same, as those who write have decided.
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
        match (subnet, &self.context.ledger) {
            (Some(subnet), Some(ledger)) if !self.writes() => self.mirror(name, &subnet, ledger).await,
            (Some(subnet), Some(ledger)) => self.keep(name, &subnet, ledger).await,
            (Some(subnet), None) => self.follow_service(name, &subnet).await,
            (None, Some(ledger)) => self.forget(name, ledger).await,
            (None, None) => Ok(()),
        }
    }

    async fn keep(&self, name: &str, subnet: &Arc<Subnet>, ledger: &Ledger) -> Result<(), Failure> {
        let deleting = subnet.metadata.deletion_timestamp.is_some();
        let held = subnet.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        let subnet = match (deleting, held) {
            (_, true) => Arc::clone(subnet),
            // Others may still hold it; it is none of ours any more.
            (true, false) => return self.forget(name, ledger).await,
            // Before anything is handed out: from then on the Subnet can't go while somebody owns a part of it.
            (false, false) => match self.set_finalizer(name, subnet, true).await? {
                Some(subnet) => subnet,
                None => return Ok(()),
            },
        };
        let mut verdict = match subnet.validate() {
            Ok(valid) => self.make_known(name, &subnet, ledger, valid).await?,
            Err(refusals) => Verdict::of_refusals(&refusals),
        };
        match verdict {
            Verdict::Ready => self.state().refused.remove(name),
            _ => self.state().refused.insert(name.to_owned()),
        };
        if deleting {
            let owners = self.owners(name, ledger).await?;
            if owners == 0 {
                if self.set_finalizer(name, &subnet, false).await?.is_some() {
                    self.state().objects.remove(name);
                    self.drop_from(ledger, name).await;
                }
                return Ok(());
            }
            verdict = Verdict::Leaving { owners };
            if self.state().leaving.insert(name.to_owned(), owners) != Some(owners) {
                self.context
                    .warn(&subnet.object_ref(&()), "SubnetInUse", "Delete", leaving(owners));
            }
        }
        // Having asked for anything, the ledger counts anew: rests end without anybody telling.
        let counts = self.counts(name, ledger).await?;
        self.write(name, &subnet, &verdict, counts.as_ref().and_then(scarcest))
            .await
    }

    /// Nothing is decided here: only those that are served are made known, as their status and their ledger's store are durable.
    async fn mirror(&self, name: &str, subnet: &Subnet, ledger: &Ledger) -> Result<(), Failure> {
        if has_served(subnet)
            && let Ok(valid) = subnet.validate()
        {
            self.make_known(name, subnet, ledger, valid).await?;
        }
        Ok(())
    }

    /// Where the subnets are made known to is another process's business; here it is only said how they stand.
    async fn follow_service(&self, name: &str, subnet: &Subnet) -> Result<(), Failure> {
        self.queue.add_after(name.to_owned(), BETWEEN_LOOKS);
        match self.context.allocator.utilization(name).await {
            Ok(utilization) => {
                let counts = scarcest(&utilization.families);
                self.write(name, subnet, &Verdict::Ready, counts).await
            }
            Err(error @ AllocatorError::NoSubnet { .. }) => {
                let why = format!("{error}; make it known to the allocator");
                self.write(name, subnet, &Verdict::Invalid { why }, None).await
            }
            Err(error) => Err(error.into()),
        }
    }
}
