//! Writes ClusterSubnetStates: when what they say changes, and not otherwise.

use std::sync::Arc;
use std::time::Duration;

use berth_api::{ClusterSubnetState, Subnet, names};
use berth_kit::api_error::{is_conflict, is_not_found};
use berth_kit::backoff::Exponential;
use berth_kit::queue::Queue;
use berth_kit::watch::Change;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Resource, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;
use tracing::info;

use super::decide::{is_published, publish};
use super::index::Index;
use crate::context::Context;
use crate::controller::Controller;
use crate::error::ReconcileError;

const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(5),
    max: Duration::from_secs(60),
};

/// Clones share the same state.
#[derive(Clone)]
pub struct SubnetStates {
    context: Context,
    /// Never held across an await.
    index: Arc<Mutex<Index>>,
    pub queue: Queue<String>,
}

impl SubnetStates {
    pub fn new(context: Context) -> Self {
        Self {
            queue: Queue::new("subnet-state", BACKOFF, &context.metrics.queues),
            index: Arc::default(),
            context,
        }
    }

    pub fn subnet_changed(&self, change: &Change<Subnet>) {
        let changed = self.index.lock().apply_subnet(change);
        changed.into_iter().for_each(|name| self.queue.add(name));
    }

    pub fn state_changed(&self, change: &Change<ClusterSubnetState>) {
        let changed = self.index.lock().apply_state(change);
        changed.into_iter().for_each(|name| self.queue.add(name));
    }
}

pub async fn reconcile(states: SubnetStates, name: String) -> Result<(), ReconcileError> {
    let done = reconcile_state(&states, &name).await;
    states.context.count_outcome(Controller::SubnetState, done)
}

async fn reconcile_state(states: &SubnetStates, name: &str) -> Result<(), ReconcileError> {
    let (subnet, state) = states.index.lock().get(name);
    match (subnet.filter(|subnet| is_published(subnet)), state) {
        (Some(subnet), state) => update(states, name, &subnet, state.as_deref()).await,
        (None, Some(state)) if is_ours(&state) => remove(&states.context, name, &state).await,
        (None, _) => Ok(()),
    }
}

async fn update(
    states: &SubnetStates,
    name: &str,
    subnet: &Subnet,
    state: Option<&ClusterSubnetState>,
) -> Result<(), ReconcileError> {
    let SubnetStates { context, index, .. } = states;
    let published = state.and_then(|state| state.status.as_ref());
    let Some(status) = publish(subnet, published, context.now()) else {
        return Ok(());
    };
    if state.is_none() && !create(context, name, subnet).await? {
        return Ok(());
    }
    let (exhausted, scaler) = (status.exhausted, &status.scaler);
    info!(subnet = name, exhausted, ?scaler, "publishing the ClusterSubnetState");
    let patch = json!({
        "apiVersion": ClusterSubnetState::api_version(&()),
        "kind": ClusterSubnetState::kind(&()),
        "metadata": {"name": name},
        "status": status,
    });
    let params = PatchParams::apply(names::field_manager::SUBNET_STATE).force();
    let patch = Patch::Apply(patch);
    match context.subnet_states().patch_status(name, &params, &patch).await {
        // Somebody has deleted it: the watch will report that, and it is created again.
        Err(error) if is_not_found(&error) => Ok(()),
        Ok(written) => {
            index.lock().set_state(name, written);
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// Creates the object, which goes with its Subnet. Returns whether it is new: if it exists already,
/// the watch will report it.
async fn create(context: &Context, name: &str, subnet: &Subnet) -> Result<bool, ReconcileError> {
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
    match context.subnet_states().create(&params, &state).await {
        Err(error) if is_conflict(&error) => Ok(false),
        created => Ok(created.map(|_| true)?),
    }
}

async fn remove(
    context: &Context,
    name: &str,
    state: &ClusterSubnetState,
) -> Result<(), ReconcileError> {
    let this_one = Preconditions {
        uid: state.uid(),
        resource_version: None,
    };
    let params = DeleteParams::background().preconditions(this_one);
    match context.subnet_states().delete(name, &params).await {
        Err(error) if !is_not_found(&error) && !is_conflict(&error) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Others may keep such objects, too.
fn is_ours(state: &ClusterSubnetState) -> bool {
    let kind = Subnet::kind(&());
    state.owner_references().iter().any(|owner| owner.kind == kind)
}
