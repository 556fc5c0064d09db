//! Writes ClusterSubnetStates: when what they say changes, and not otherwise.

use berth_kit::api_error::{is_conflict, is_not_found};
use berth_kit::watch::{Change, Key};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use berth_api::{ClusterSubnetState, Subnet, names};
use berth_kit::backoff::Exponential;
use berth_kit::queue::Queue;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Resource, ResourceExt};
use serde_json::json;
use tracing::info;

use super::decide::{is_published, publish};
use crate::controllers::{Context, Controller, Failure};

const AGAIN: Exponential = Exponential {
    base: Duration::from_millis(5),
    max: Duration::from_secs(60),
};

/// Clones are the same.
#[derive(Clone)]
pub(crate) struct SubnetStates {
    context: Context,
    index: Arc<Mutex<Index>>,
    pub queue: Queue<String>,
}

#[derive(Default)]
struct Index {
    subnets: BTreeMap<String, Arc<Subnet>>,
    states: BTreeMap<String, Arc<ClusterSubnetState>>,
}

impl SubnetStates {
    pub fn new(context: Context) -> Self {
        Self {
            queue: Queue::new("subnet-state", AGAIN, &context.metrics.queues),
            index: Arc::default(),
            context,
        }
    }

    /// Never held across an await. No change leaves it half made, so a panic elsewhere does not
    /// matter.
    fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn subnet_changed(&self, change: &Change<Subnet>) {
        let name = match change {
            Change::Apply(subnet) => {
                self.index().subnets.insert(subnet.name_any(), Arc::clone(subnet));
                subnet.name_any()
            }
            Change::Delete(Key { name, .. }) => {
                self.index().subnets.remove(name);
                name.clone()
            }
            Change::Restarted | Change::Synced => return,
        };
        self.queue.add(name);
    }

    pub fn state_changed(&self, change: Change<ClusterSubnetState>) {
        let name = match change {
            Change::Apply(state) => {
                let name = state.name_any();
                self.index().states.insert(name.clone(), state);
                name
            }
            Change::Delete(Key { name, .. }) => {
                self.index().states.remove(&name);
                name
            }
            Change::Restarted | Change::Synced => return,
        };
        self.queue.add(name);
    }

    pub async fn reconcile(self, name: String) -> Result<(), Failure> {
        let done = self.look_at(&name).await;
        let category = done.as_ref().err().map_or("ok", Failure::category);
        self.context.metrics.reconciled(Controller::SubnetState, category);
        done
    }

    async fn look_at(&self, name: &str) -> Result<(), Failure> {
        let (subnet, state) = {
            let index = self.index();
            (index.subnets.get(name).cloned(), index.states.get(name).cloned())
        };
        match (subnet.filter(|subnet| is_published(subnet)), state) {
            (Some(subnet), state) => self.publish(name, &subnet, state.as_deref()).await,
            (None, Some(state)) if is_ours(&state) => self.remove(name, &state).await,
            (None, _) => Ok(()),
        }
    }

    async fn publish(
        &self,
        name: &str,
        subnet: &Subnet,
        state: Option<&ClusterSubnetState>,
    ) -> Result<(), Failure> {
        let published = state.and_then(|state| state.status.as_ref());
        let Some(status) = publish(subnet, published, self.context.now()) else {
            return Ok(());
        };
        if state.is_none() && !self.create(name, subnet).await? {
            return Ok(());
        }
        info!(subnet = name, exhausted = status.exhausted, scaler = ?status.scaler, "publishes \
                                                                                     whether it \
                                                                                     is exhausted");
        let patch = json!({
            "apiVersion": ClusterSubnetState::api_version(&()),
            "kind": ClusterSubnetState::kind(&()),
            "metadata": {"name": name},
            "status": status,
        });
        let params = PatchParams::apply(names::field_manager::SUBNET_STATE).force();
        match self
            .context
            .states()
            .patch_status(name, &params, &Patch::Apply(patch))
            .await
        {
            // Somebody has deleted it: the watch tells, and it is made again.
            Err(error) if is_not_found(&error) => Ok(()),
            // Taken over at once: until the watch tells, this would be written again.
            Ok(written) => {
                self.index().states.insert(name.to_owned(), Arc::new(written));
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Goes with its Subnet. Whether it is new: if it is there already, the watch will tell.
    async fn create(&self, name: &str, subnet: &Subnet) -> Result<bool, Failure> {
        let state = ClusterSubnetState {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(names::NAMESPACE.to_owned()),
                owner_references: Some(subnet.controller_owner_ref(&()).into_iter().collect()),
                ..ObjectMeta::default()
            },
            ..ClusterSubnetState::default()
        };
        let params = PostParams {
            field_manager: Some(names::field_manager::SUBNET_STATE.to_owned()),
            ..PostParams::default()
        };
        match self.context.states().create(&params, &state).await {
            Err(error) if is_conflict(&error) => Ok(false),
            created => Ok(created.map(|_| true)?),
        }
    }

    async fn remove(&self, name: &str, state: &ClusterSubnetState) -> Result<(), Failure> {
        let this_one = Preconditions {
            uid: state.uid(),
            resource_version: None,
        };
        let params = DeleteParams::background().preconditions(this_one);
        match self.context.states().delete(name, &params).await {
            Err(error) if !is_not_found(&error) && !is_conflict(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Others may keep such objects, too.
fn is_ours(state: &ClusterSubnetState) -> bool {
    let kind = Subnet::kind(&());
    state.owner_references().iter().any(|owner| owner.kind == kind)
}
