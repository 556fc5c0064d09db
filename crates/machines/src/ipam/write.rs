//! Writes to Machines. Each is over exactly the state that was read.

use std::sync::Arc;

use berth_kit::api_error::{is_conflict, is_not_found};
use kube::api::{Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::condition::{Verdict, conditions};
use super::index::Key;
use super::{BYPASS, Context, FIELD_MANAGER, FINALIZER};
use crate::failure::ReconcileError;
use crate::machine::{INITIALIZER, INITIALIZERS, Machine};
use crate::network::Network;

/// The result of a write.
pub(super) enum Written {
    Done(Arc<Machine>),
    /// Somebody was faster: this is the present state.
    Changed(Arc<Machine>),
    Gone,
}

impl Context {
    fn api(&self, machine: &Machine) -> Api<DynamicObject> {
        let resource = machine.shape.resource();
        match &machine.metadata.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, &resource),
            None => Api::all_with(self.client.clone(), &resource),
        }
    }

    /// Adds our finalizer: from now on the machine's address can't be lost.
    pub(super) async fn protect(&self, machine: &Machine) -> Result<Written, ReconcileError> {
        let mut finalizers = machine.finalizers().to_vec();
        finalizers.push(FINALIZER.to_owned());
        self.patch(machine, json!({"metadata": {"finalizers": finalizers}}))
            .await
    }

    pub(super) async fn remove_finalizer(
        &self,
        machine: &Machine,
    ) -> Result<Written, ReconcileError> {
        let others = machine.finalizers().iter().filter(|finalizer| *finalizer != FINALIZER);
        let others: Vec<&String> = others.collect();
        self.patch(machine, json!({"metadata": {"finalizers": others}})).await
    }

    /// Writes the network and opens the gate together: nobody sees one without the other.
    pub(super) async fn set_network(
        &self,
        machine: &Machine,
        network: &Network,
    ) -> Result<Written, ReconcileError> {
        let mut patch = self.open_gate_patch(machine);
        patch["metadata"]["annotations"][BYPASS] = "true".into();
        patch["spec"] = machine.shape.spec_with(&network.to_value(machine.shape));
        self.patch(machine, patch).await
    }

    pub(super) async fn open_gate(&self, machine: &Machine) -> Result<Written, ReconcileError> {
        self.patch(machine, self.open_gate_patch(machine)).await
    }

    /// Removes our entry and nothing else; if no entry is left, the annotation goes.
    fn open_gate_patch(&self, machine: &Machine) -> Value {
        let left = machine.initializers().without(INITIALIZER).to_annotation();
        json!({"metadata": {"annotations": {INITIALIZERS: left}}})
    }

    async fn patch(&self, machine: &Machine, mut patch: Value) -> Result<Written, ReconcileError> {
        patch["metadata"]["resourceVersion"] = json!(machine.metadata.resource_version);
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let api = self.api(machine);
        let name = Key::of(machine).name;
        match api.patch(&name, &params, &Patch::Merge(patch)).await {
            Ok(object) => Ok(Written::Done(self.apply_written(machine, &object))),
            Err(error) if is_not_found(&error) => Ok(Written::Gone),
            Err(error) if is_conflict(&error) => Ok(match api.get_opt(&name).await? {
                Some(object) => Written::Changed(self.apply_written(machine, &object)),
                None => Written::Gone,
            }),
            Err(error) => Err(error.into()),
        }
    }

    /// The index gets it at once: until the watch reports it, it would be written again.
    fn apply_written(&self, before: &Machine, object: &DynamicObject) -> Arc<Machine> {
        let machine = Arc::new(Machine::of(before.shape, object));
        // A Machine that went with this write must not be in the index.
        let gone = machine.is_deleting() && machine.finalizers().is_empty();
        if !gone && object.uid() == before.metadata.uid {
            self.index.lock().apply_machine(Arc::clone(&machine));
        }
        machine
    }

    /// Writes the condition, for people. A cluster whose Machines have no status has no conditions.
    pub(super) async fn write_condition(
        &self,
        machine: &Machine,
        verdict: &Verdict,
    ) -> Result<(), ReconcileError> {
        let mut newer: Option<Arc<Machine>> = None;
        loop {
            let current = newer.as_deref().unwrap_or(machine);
            let Some(conditions) = conditions(&current.value, verdict, self.now()) else {
                return Ok(());
            };
            let patch = json!({
                "metadata": {"resourceVersion": current.metadata.resource_version},
                "status": {"conditions": conditions},
            });
            let params = PatchParams {
                field_manager: Some(FIELD_MANAGER.to_owned()),
                ..PatchParams::default()
            };
            let name = Key::of(machine).name;
            let api = self.api(machine);
            match api.patch_status(&name, &params, &Patch::Merge(patch)).await {
                Ok(object) => {
                    self.apply_written(machine, &object);
                    return Ok(());
                }
                Err(error) if is_not_found(&error) => return Ok(()),
                // The controller that builds the machine writes its status at the same moment, and
                // nothing would cause this write later.
                Err(error) if is_conflict(&error) => match api.get_opt(&name).await? {
                    Some(object) if object.uid() == machine.metadata.uid => {
                        newer = Some(self.apply_written(machine, &object));
                    }
                    _ => return Ok(()),
                },
                Err(error) => return Err(error.into()),
            }
        }
    }
}
