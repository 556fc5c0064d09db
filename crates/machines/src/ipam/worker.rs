//! The worker: takes all machines that wait, and brings each as far as it goes.

use std::sync::Arc;

use berth_kit::work::work;
use k8s_openapi::api::core::v1::ObjectReference;
use tracing::{debug, info};

use super::Context;
use super::allocate::Allocation;
use super::claims::Conflict;
use super::condition::Verdict;
use super::decide::{Step, step};
use super::index::Key;
use super::write::Written;
use crate::failure::ReconcileError;
use crate::machine::Machine;
use crate::network::Network;
use crate::pool::release_all;

/// Writes under way at a time, each on a connection to the API server with buffers of its own.
const CONCURRENCY: usize = 32;
/// Steps that one machine can take in a row, with others writing to it in between.
const MAX_STEPS: usize = 16;

impl Context {
    pub(super) async fn work(&self) {
        let context = self.clone();
        let reconcile = move |key: Key| {
            let context = context.clone();
            async move { context.reconcile(&key).await }
        };
        work(self.queue.clone(), CONCURRENCY, reconcile).await;
    }

    async fn reconcile(&self, key: &Key) -> Result<(), ReconcileError> {
        let Some(mut machine) = self.index.lock().machine(key) else {
            return Ok(());
        };
        for _ in 0..MAX_STEPS {
            let next = step(&machine, &self.index.lock().pools);
            let written = match next {
                Step::Nothing => return Ok(()),
                Step::Refuse { why } => return self.refuse(&machine, "InvalidNetwork", why).await,
                Step::Protect => self.protect(&machine).await?,
                Step::Allocate => match self.allocate_network(key, &machine).await? {
                    Some(written) => written,
                    None => return Ok(()),
                },
                Step::Record { network, gated } => {
                    match self.record(&machine, &network, gated).await? {
                        Some(written) => written,
                        None => return Ok(()),
                    }
                }
                Step::Release => return self.release(&machine).await,
            };
            match written {
                Written::Done(next) | Written::Changed(next) => machine = next,
                Written::Gone => return Ok(()),
            }
        }
        let object = format!("{key:?}");
        Err(ReconcileError::Contended { object })
    }

    /// Gives the machine a network and opens the gate. Returns `None` if the machine must wait.
    async fn allocate_network(
        &self,
        key: &Key,
        machine: &Arc<Machine>,
    ) -> Result<Option<Written>, ReconcileError> {
        // This comes before the request: an address that comes free meanwhile wakes the machine.
        self.waiting.insert(key.clone());
        let owner = machine.owner(&self.cluster)?;
        let network = match self.allocate(&owner).await? {
            Allocation::Given(network) => network,
            Allocation::Full { cidrs } => {
                self.metrics.full.inc();
                let cidrs: Vec<String> = cidrs.iter().map(ToString::to_string).collect();
                let why = format!(
                    "no address is left in {}: add a CIDR, or remove machines",
                    cidrs.join(", ")
                );
                self.refuse(machine, "NoFreeAddress", why).await?;
                return Ok(None);
            }
            // A change of the Subnet wakes the machine.
            Allocation::NotYet => return Ok(None),
            Allocation::NoNetwork { why } => {
                self.refuse(machine, "NoNetwork", why).await?;
                return Ok(None);
            }
        };
        // Somebody set the address by hand on a machine that was not known yet when the pool was
        // claimed.
        if let Some(other) = self.other_holder(machine, &network) {
            self.release_all(machine).await?;
            self.claimed.lock().clear();
            self.queue.add(Key::of(&other));
            let object = format!("{key:?}");
            return Err(ReconcileError::Contended { object });
        }
        let written = self.set_network(machine, &network).await?;
        if let Written::Done(machine) = &written {
            self.waiting.remove(key);
            self.mark_recorded(machine, &network);
            self.metrics.allocations.inc();
            let addresses = shown(&network);
            info!(machine = ?key, addresses, "allocated the network of the Machine");
            self.allocated(machine, format!("{addresses} was allocated")).await;
        }
        Ok(Some(written))
    }

    fn other_holder(&self, machine: &Machine, network: &Network) -> Option<Arc<Machine>> {
        let index = self.index.lock();
        let others = network
            .addresses
            .iter()
            .flat_map(|address| index.with_address(address.ip));
        others
            .into_iter()
            .find(|other| other.metadata.uid != machine.metadata.uid)
    }

    /// Records the machine's network. Returns `None` if there is nothing more to do.
    async fn record(
        &self,
        machine: &Arc<Machine>,
        network: &Network,
        gated: bool,
    ) -> Result<Option<Written>, ReconcileError> {
        let mut conflicts = Vec::new();
        let mut outside = true;
        if !self.is_recorded(machine, network) {
            for pool in self.pools_of(network) {
                outside = false;
                conflicts.extend(self.claim(&pool, std::slice::from_ref(machine)).await?);
            }
            if conflicts.is_empty() {
                self.mark_recorded(machine, network);
            }
        } else {
            outside = self.pools_of(network).is_empty();
        }
        if !conflicts.is_empty() {
            self.conflict(machine, &conflicts).await?;
            return Ok(None);
        }
        if !gated {
            return Ok(None);
        }
        if outside {
            let note = format!(
                "{} is in no network for machines: it is used as it is, but not kept from others",
                shown(network)
            );
            self.background
                .warn(&reference(machine), "NetworkOutside", "Record", note);
        }
        let written = self.open_gate(machine).await?;
        if let Written::Done(machine) = &written {
            self.waiting.remove(&Key::of(machine));
            self.allocated(machine, format!("{} was set by hand", shown(network)))
                .await;
        }
        Ok(Some(written))
    }

    fn pools_of(&self, network: &Network) -> Vec<String> {
        let index = self.index.lock();
        let holding = network
            .addresses
            .iter()
            .filter_map(|address| index.pools.holding(address.ip));
        let mut names: Vec<String> = holding.map(|pool| pool.name.clone()).collect();
        names.dedup();
        names
    }

    fn is_recorded(&self, machine: &Machine, network: &Network) -> bool {
        let uid = machine.metadata.uid.as_deref().unwrap_or_default();
        self.recorded
            .lock()
            .get(uid)
            .is_some_and(|found| *found == shown(network))
    }

    fn mark_recorded(&self, machine: &Machine, network: &Network) {
        let uid = machine.metadata.uid.clone().unwrap_or_default();
        self.recorded.lock().insert(uid, shown(network));
    }

    /// Reports the conflict on both machines. The second waits until the other gives the address
    /// back.
    async fn conflict(
        &self,
        machine: &Arc<Machine>,
        conflicts: &[Conflict],
    ) -> Result<(), ReconcileError> {
        self.waiting.insert(Key::of(machine));
        for Conflict { address, owner } in conflicts {
            let other = self.index.lock().with_uid(owner.uid());
            if let Some(other) = other {
                let note =
                    format!("{} is also set on machine {:?}", address.first(), Key::of(machine));
                self.background
                    .warn(&reference(&other), "AddressConflict", "Record", note);
            }
        }
        let told = conflicts
            .iter()
            .map(|conflict| format!("{} is owned by {}", conflict.address.first(), conflict.owner));
        let why = told.collect::<Vec<_>>().join("; ");
        self.refuse(
            machine,
            "AddressConflict",
            format!("{why}: set another address, or remove the other one"),
        )
        .await
    }

    /// The machine stays as it is; an event and its condition say why.
    async fn refuse(
        &self,
        machine: &Machine,
        reason: &'static str,
        why: String,
    ) -> Result<(), ReconcileError> {
        self.background
            .warn(&reference(machine), reason, "Allocate", why.clone());
        let verdict = Verdict {
            allocated: false,
            reason,
            message: why,
        };
        self.write_condition(machine, &verdict).await
    }

    /// Writes the condition for people only: what counts is in the spec already.
    async fn allocated(&self, machine: &Machine, message: String) {
        let verdict = Verdict {
            allocated: true,
            reason: "Allocated",
            message,
        };
        if let Err(error) = self.write_condition(machine, &verdict).await {
            debug!(
                machine = ?Key::of(machine),
                %error,
                "cannot write the condition of the Machine"
            );
        }
    }

    /// Releases the address first, then the finalizer: after a crash between the two it runs again,
    /// and finds nothing more to release.
    async fn release(&self, machine: &Machine) -> Result<(), ReconcileError> {
        self.release_all(machine).await?;
        self.remove_finalizer(machine).await?;
        Ok(())
    }

    async fn release_all(&self, machine: &Machine) -> Result<(), ReconcileError> {
        let owner = machine.owner(&self.cluster)?;
        let pools = self.index.lock().pools.in_ledger();
        release_all(&self.ledger, &owner, pools).await?;
        let uid = machine.metadata.uid.as_deref().unwrap_or_default();
        self.recorded.lock().remove(uid);
        Ok(())
    }
}

fn shown(network: &Network) -> String {
    let addresses: Vec<String> = network.addresses.iter().map(ToString::to_string).collect();
    addresses.join(", ")
}

pub(super) fn reference(machine: &Machine) -> ObjectReference {
    let resource = machine.shape.resource();
    ObjectReference {
        api_version: Some(resource.api_version),
        kind: Some(resource.kind),
        name: machine.metadata.name.clone(),
        namespace: machine.metadata.namespace.clone(),
        uid: machine.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}
