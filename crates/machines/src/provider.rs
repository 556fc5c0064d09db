//! A virtual provider of machines, for `berth up` and for tests: it takes machines that wait for no
//! initializer, renders their document, stores it in a Secret, and reports them as provisioned. It
//! builds nothing.

use std::time::Duration;

use berth_kit::api_error::{is_conflict, is_not_found};
use berth_kit::backoff::Exponential;
use berth_kit::queue::{Queue, QueueMetrics};
use berth_kit::watch::{Change, Key, changes};
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::core::DynamicObject;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::failure::ReconcileError;
use crate::machine::{Machine, Shape};
use crate::render::{Os, document};

/// As machine-controller's: a machine that was built is to be removed before its Machine goes.
pub const FINALIZER: &str = "machine-delete-finalizer";
/// The key of the document in its Secret.
pub const USER_DATA: &str = "userData";

const FIELD_MANAGER: &str = "berth-virtual-provider";
/// The namespace of Secrets of Machines that are in no namespace.
const NAMESPACE: &str = "kube-system";
const SERVED_INTERVAL: Duration = Duration::from_secs(10);
const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(50),
    max: Duration::from_secs(30),
};

/// Runs until `stop`.
pub fn run(
    client: Client,
    queues: QueueMetrics,
    stop: CancellationToken,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let both = Shape::ALL.map(|shape| {
            let (client, queues) = (client.clone(), queues.clone());
            provide(client, queues, shape)
        });
        let [one, other] = both;
        stop.run_until_cancelled(futures::future::join(one, other)).await;
    })
}

async fn provide(client: Client, queues: QueueMetrics, shape: Shape) {
    let resource = shape.resource();
    while client.list_api_group_resources(&resource.api_version).await.is_err() {
        tokio::time::sleep(SERVED_INTERVAL).await;
    }
    // One for each kind: metrics tell queues apart by name.
    let name = format!("virtual-machines.{}", resource.group);
    let queue: Queue<Key> = Queue::new(&name, BACKOFF, &queues);
    let provider = Provider {
        client: client.clone(),
        shape,
    };
    let watching = changes(
        Api::<DynamicObject>::all_with(client, &resource),
        ListParams::default(),
        |change| match change {
            Change::Apply(object) => queue.add(Key::of(&*object)),
            Change::Delete(name) => queue.add(name),
            Change::Restarted | Change::Synced => {}
        },
    );
    let working = async {
        while let Some(work) = queue.take().await {
            match provider.reconcile(&work).await {
                Ok(()) => work.succeeded(),
                Err(error) => {
                    let machine = work.clone();
                    let retry = work.failed();
                    if !matches!(error, ReconcileError::Contended { .. }) {
                        warn!(
                            ?machine,
                            %error,
                            ?retry,
                            "cannot reconcile the virtual machine; retrying"
                        );
                    }
                }
            }
        }
    };
    futures::future::join(watching, working).await;
}

struct Provider {
    client: Client,
    shape: Shape,
}

impl Provider {
    fn api(&self, namespace: &str) -> Api<DynamicObject> {
        let resource = self.shape.resource();
        match namespace {
            "" => Api::all_with(self.client.clone(), &resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, &resource),
        }
    }

    fn secrets(&self, namespace: &str) -> Api<Secret> {
        let namespace = if namespace.is_empty() { NAMESPACE } else { namespace };
        Api::namespaced(self.client.clone(), namespace)
    }

    async fn reconcile(&self, name: &Key) -> Result<(), ReconcileError> {
        let Key { namespace, name } = name;
        let Some(object) = self.api(namespace).get_opt(name).await? else {
            return Ok(());
        };
        let machine = Machine::of(self.shape, &object);
        let held = machine.finalizers().iter().any(|finalizer| finalizer == FINALIZER);
        if machine.is_deleting() {
            return if held {
                self.remove(namespace, name, &machine).await
            } else {
                Ok(())
            };
        }
        // An initializer is not done yet.
        if !machine.initializers().is_empty() {
            return Ok(());
        }
        if !held {
            let mut finalizers = machine.finalizers().to_vec();
            finalizers.push(FINALIZER.to_owned());
            return self
                .patch(
                    namespace,
                    name,
                    &machine,
                    json!({"metadata": {"finalizers": finalizers}}),
                )
                .await;
        }
        self.provision(namespace, name, &machine).await
    }

    async fn provision(
        &self,
        namespace: &str,
        name: &str,
        machine: &Machine,
    ) -> Result<(), ReconcileError> {
        let os = self
            .shape
            .provider(&machine.value)
            .get("operatingSystem")
            .and_then(Value::as_str);
        let os: Result<Os, _> = os.unwrap_or("ubuntu").parse();
        let rendered = os.map_err(|error| error.to_string());
        let rendered =
            rendered.and_then(|os| document(machine, os).map_err(|error| error.to_string()));
        let (phase, message) = match &rendered {
            Ok(_) => ("Provisioned", "the document is in its Secret".to_owned()),
            Err(why) => ("Failed", why.clone()),
        };
        if machine.value.pointer("/status/phase").and_then(Value::as_str) == Some(phase) {
            return Ok(());
        }
        if let Ok(document) = rendered {
            let secret = json!({
                "apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret_name(name)},
                "stringData": {USER_DATA: document},
            });
            let params = PatchParams::apply(FIELD_MANAGER).force();
            self.secrets(namespace)
                .patch(&secret_name(name), &params, &Patch::Apply(secret))
                .await?;
        }
        let patch = json!({
            "metadata": {"resourceVersion": machine.metadata.resource_version},
            "status": {"phase": phase, "message": message},
        });
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patched = self
            .api(namespace)
            .patch_status(name, &params, &Patch::Merge(patch))
            .await;
        info!(machine = name, phase, "setting the phase of the virtual machine");
        outcome(name, patched)
    }

    async fn remove(
        &self,
        namespace: &str,
        name: &str,
        machine: &Machine,
    ) -> Result<(), ReconcileError> {
        match self
            .secrets(namespace)
            .delete(&secret_name(name), &DeleteParams::default())
            .await
        {
            Err(error) if is_not_found(&error) => {}
            deleted => drop(deleted?),
        }
        let others: Vec<&String> = machine
            .finalizers()
            .iter()
            .filter(|finalizer| *finalizer != FINALIZER)
            .collect();
        self.patch(namespace, name, machine, json!({"metadata": {"finalizers": others}}))
            .await
    }

    async fn patch(
        &self,
        namespace: &str,
        name: &str,
        machine: &Machine,
        patch: Value,
    ) -> Result<(), ReconcileError> {
        let mut patch = patch;
        patch["metadata"]["resourceVersion"] = json!(machine.metadata.resource_version);
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        outcome(
            name,
            self.api(namespace).patch(name, &params, &Patch::Merge(patch)).await,
        )
    }
}

pub fn secret_name(machine: &str) -> String {
    format!("machine-{machine}")
}

fn outcome(name: &str, patched: Result<DynamicObject, kube::Error>) -> Result<(), ReconcileError> {
    match patched {
        Err(error) if is_not_found(&error) => Ok(()),
        Err(error) if is_conflict(&error) => Err(ReconcileError::Contended {
            object: name.to_owned(),
        }),
        patched => patched.map(drop).map_err(Into::into),
    }
}
