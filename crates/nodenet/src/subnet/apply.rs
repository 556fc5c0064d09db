//! Makes Subnets known, one at a time, and writes their status.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_addr::{Counts, Family, Plan};
use berth_api::subnet::ValidSubnet;
use berth_api::{Subnet, SubnetStatus, names};
use berth_kit::backoff::Exponential;
use berth_kit::queue::Queue;
use berth_ledger::{Ledger, LedgerError};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde_json::json;
use tokio::time::Instant;
use tracing::{info, warn};

use super::FINALIZER;
use super::decide::{Verdict, earlier_plans, has_served, precedence, scarcest};
use super::status::{leaving, status};
use crate::allocator::AllocatorError;
use crate::controllers::{Change, Context, Controller, Failure, is_conflict, is_gone};

const AGAIN: Exponential = Exponential {
    base: Duration::from_millis(10),
    max: Duration::from_secs(60),
};

/// Between two writes of the same status: while addresses come and go, a person needs no more.
const BETWEEN_WRITES: Duration = Duration::from_secs(1);

/// How often an allocator that is a service is asked how full a subnet is: it does not tell by itself.
const BETWEEN_LOOKS: Duration = Duration::from_secs(10);

/// Clones are the same.
#[derive(Clone)]
pub(crate) struct Subnets {
    context: Context,
    state: Arc<Mutex<State>>,
    pub queue: Queue<String>,
}

#[derive(Default)]
struct State {
    synced: bool,
    objects: BTreeMap<String, Arc<Subnet>>,
    known: BTreeMap<String, Known>,
    /// When a status was last written.
    written: BTreeMap<String, Instant>,
    /// Of those that are to go, how many owners were told to be in the way.
    leaving: BTreeMap<String, usize>,
}

/// What the ledger was told of a subnet last, and took.
#[derive(Clone)]
struct Known {
    plan: Plan,
    reuse_delay: Duration,
    object: ObjectReference,
}

impl Subnets {
    pub fn new(context: Context) -> Self {
        Self {
            queue: Queue::new("subnets", AGAIN, &context.metrics.queues),
            state: Arc::default(),
            context,
        }
    }

    /// Never held across an await. No change leaves it half made, so a panic elsewhere does not matter.
    fn state(&self) -> MutexGuard<'_, State> {
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
                subnets.into_iter().for_each(|subnet| self.queue.add(subnet.name_any()));
            }
        }
    }

    pub async fn reconcile(self, name: String) -> Result<(), Failure> {
        let done = self.look_at(&name).await;
        let category = done.as_ref().err().map_or("ok", Failure::category);
        self.context.metrics.reconciled(Controller::Subnet, category);
        done
    }

    async fn look_at(&self, name: &str) -> Result<(), Failure> {
        let subnet = self.state().objects.get(name).cloned();
        match (subnet, &self.context.ledger) {
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

    /// A change that can't be leaves what is known as it is.
    async fn make_known(
        &self,
        name: &str,
        subnet: &Subnet,
        ledger: &Ledger,
        valid: ValidSubnet,
    ) -> Result<Verdict, Failure> {
        let ValidSubnet { plan, reuse_delay, .. } = valid;
        let known = self.state().known.get(name).cloned();
        if known
            .as_ref()
            .is_some_and(|known| known.plan == plan && known.reuse_delay == reuse_delay)
        {
            return Ok(Verdict::Ready);
        }
        let refused = match ledger.set_subnet(name, &plan, reuse_delay).await {
            Ok(()) => {
                self.learn(name, subnet, ledger, plan, reuse_delay).await;
                return Ok(Verdict::Ready);
            }
            Err(refused) => refused,
        };
        let Some(verdict) = Verdict::of_error(&refused) else {
            return Err(refused.into());
        };
        if known.is_none() && has_served(subnet) {
            // It was known before this process began, with fewer cidrs: nodes have addresses in those.
            for earlier in earlier_plans(&plan) {
                if ledger.set_subnet(name, &earlier, reuse_delay).await.is_ok() {
                    self.learn(name, subnet, ledger, earlier, reuse_delay).await;
                    break;
                }
            }
        }
        Ok(verdict)
    }

    async fn learn(&self, name: &str, subnet: &Subnet, ledger: &Ledger, plan: Plan, reuse_delay: Duration) {
        info!(subnet = name, "known to the ledger");
        let known = Known {
            plan,
            reuse_delay,
            object: subnet.object_ref(&()),
        };
        let is_new = self.state().known.insert(name.to_owned(), known).is_none();
        if is_new && let Some(mut outlook) = ledger.outlook(name).await {
            let (this, name) = (self.clone(), name.to_owned());
            self.context.spawn(async move {
                while outlook.changed().await.is_ok() {
                    this.queue.add_after(name.clone(), this.until_next_write(&name));
                }
            });
        }
        self.look_at_refused();
    }

    /// What is known of another one has changed: those that it stood in the way of may be good now.
    fn look_at_refused(&self) {
        let state = self.state();
        let unknown = state
            .objects
            .iter()
            .filter(|(name, _)| !state.known.contains_key(*name));
        // Not one that goes: it has just been taken out, and the watch will tell that it is gone.
        let refused = unknown.filter(|(_, subnet)| subnet.metadata.deletion_timestamp.is_none());
        refused.for_each(|(name, _)| self.queue.add(name.clone()));
    }

    fn until_next_write(&self, name: &str) -> Duration {
        let written = self.state().written.get(name).copied();
        written.map_or(Duration::ZERO, |written| {
            BETWEEN_WRITES.saturating_sub(written.elapsed())
        })
    }

    /// How many own something. None where the ledger does not know the subnet: it has given nothing.
    async fn owners(&self, name: &str, ledger: &Ledger) -> Result<usize, Failure> {
        let owners = async {
            ledger.refresh(name).await?;
            ledger.owners(name).await
        };
        match owners.await {
            Ok(owners) => Ok(owners.len()),
            Err(LedgerError::NoSubnet { .. }) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    async fn counts(&self, name: &str, ledger: &Ledger) -> Result<Option<BTreeMap<Family, Counts>>, Failure> {
        match ledger.owners(name).await {
            Err(LedgerError::NoSubnet { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
            Ok(_) => {}
        }
        let outlook = ledger.outlook(name).await;
        Ok(outlook.map(|outlook| outlook.borrow().counts.clone()))
    }

    async fn drop_from(&self, ledger: &Ledger, name: &str) {
        ledger.remove_subnet(name).await;
        {
            let mut state = self.state();
            state.known.remove(name);
            state.written.remove(name);
            state.leaving.remove(name);
        }
        self.look_at_refused();
    }

    /// The object is gone although its finalizer should have kept it. What is owned in it stays owned: as long as this process runs, nobody
    /// else gets it.
    async fn forget(&self, name: &str, ledger: &Ledger) -> Result<(), Failure> {
        let Some(known) = self.state().known.get(name).cloned() else {
            return Ok(());
        };
        let owners = self.owners(name, ledger).await?;
        if owners == 0 {
            self.drop_from(ledger, name).await;
            return Ok(());
        }
        warn!(
            subnet = name,
            owners, "the Subnet is gone while addresses of it are owned"
        );
        let note = format!(
            "it was removed although {owners} own addresses in it: they keep them. Create it again with the same cidrs, else nothing keeps a new \
             Subnet from having the same addresses once this controller is started again"
        );
        self.context.warn(&known.object, "SubnetInUse", "Delete", note);
        Ok(())
    }

    /// Over exactly the state that was read. `None` when it is another one by now: the watch tells.
    async fn set_finalizer(&self, name: &str, subnet: &Subnet, wanted: bool) -> Result<Option<Arc<Subnet>>, Failure> {
        let mut finalizers: Vec<String> = subnet.finalizers().to_vec();
        finalizers.retain(|finalizer| finalizer != FINALIZER);
        if wanted {
            finalizers.push(FINALIZER.to_owned());
        }
        let patch = json!({"metadata": {
            "resourceVersion": subnet.metadata.resource_version,
            "finalizers": finalizers,
        }});
        let params = PatchParams {
            field_manager: Some(names::field_manager::SUBNET.to_owned()),
            ..PatchParams::default()
        };
        match self.context.subnets().patch(name, &params, &Patch::Merge(patch)).await {
            Err(error) if is_conflict(&error) || is_gone(&error) => Ok(None),
            patched => Ok(Some(Arc::new(patched?))),
        }
    }

    async fn write(
        &self,
        name: &str,
        subnet: &Subnet,
        verdict: &Verdict,
        counts: Option<Counts>,
    ) -> Result<(), Failure> {
        let next = status(subnet, verdict, counts, self.context.now());
        if let Some(counts) = counts
            && counts.resting > 0
        {
            // Then some of it has rested.
            let delay = self.state().known.get(name).map(|known| known.reuse_delay);
            self.queue
                .add_after(name.to_owned(), delay.unwrap_or_default().max(BETWEEN_WRITES));
        }
        if subnet.status.as_ref() == Some(&next) {
            return Ok(());
        }
        if only_counts_differ(subnet.status.as_ref(), &next) {
            let wait = self.until_next_write(name);
            if !wait.is_zero() {
                self.queue.add_after(name.to_owned(), wait);
                return Ok(());
            }
        }
        let patch = json!({
            "apiVersion": Subnet::api_version(&()),
            "kind": Subnet::kind(&()),
            "metadata": {"name": name},
            "status": next,
        });
        let params = PatchParams::apply(names::field_manager::SUBNET).force();
        match self
            .context
            .subnets()
            .patch_status(name, &params, &Patch::Apply(patch))
            .await
        {
            Err(error) if is_gone(&error) => Ok(()),
            Ok(written) => {
                let mut state = self.state();
                state.written.insert(name.to_owned(), Instant::now());
                // Taken over at once: until the watch tells, this would be written again.
                if let Some(object) = state.objects.get_mut(name) {
                    *object = Arc::new(written);
                }
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
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

fn only_counts_differ(before: Option<&SubnetStatus>, next: &SubnetStatus) -> bool {
    before.is_some_and(|before| {
        before.conditions == next.conditions && before.observed_generation == next.observed_generation
    })
}
