//! A control plane with Machines of both shapes, the gate, the role of machine IPAM, a virtual
//! provider, and a watch on the Machines.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use berth_api::AddressBlock;
use berth_e2e::{Scene, Seen, wait_for};
use berth_kit::queue::QueueMetrics;
use berth_machines::machine::{INITIALIZERS, Machine, Shape};
use berth_machines::provider;
use berth_testbed::Component;
use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::DynamicObject;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, ResourceExt};
use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::site::Site;

pub const ACCOUNT: &str = "berth-machine-ipam";

/// How far a machine has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Gated,
    Open,
    Provisioned,
}

#[derive(Debug, Default)]
struct Watched {
    steps: BTreeMap<String, Vec<Step>>,
    /// The machines that were seen with an open gate and without a network.
    broken: Vec<String>,
}

pub struct Stage {
    pub site: Site,
    pub kubeconfig: PathBuf,
    watched: Arc<Mutex<Watched>>,
    _stop: DropGuard,
}

impl Stage {
    pub async fn open(scene: Scene) -> Result<Self> {
        let site = Site::new(scene)?;
        site.apply_printed(&["crds"])?;
        site.apply_printed(&["crds", "machines"])?;
        let scene = &site.scene;
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/machines");
        scene.cluster.apply(&deploy.join("rbac.yaml"))?;
        scene.cluster.apply(&deploy.join("gate.yaml"))?;
        let path = scene.cluster.logs().join("account.yaml");
        std::fs::write(&path, account())?;
        scene.cluster.apply(&path)?;
        let kubeconfig = scene.cluster.kubeconfig_of_account("kube-system", ACCOUNT, None)?;
        let stop = CancellationToken::new();
        let watched = Arc::new(Mutex::new(Watched::default()));
        let stage = Self {
            site,
            kubeconfig,
            watched,
            _stop: stop.clone().drop_guard(),
        };
        stage.until_gated().await?;
        let queues = QueueMetrics::register(&mut Registry::default());
        tokio::spawn(provider::run(stage.site.scene.client.clone(), queues, stop.clone()));
        tokio::spawn(stop.run_until_cancelled_owned(watch(
            stage.machines(Shape::ProviderConfig),
            Arc::clone(&stage.watched),
        )));
        Ok(stage)
    }

    /// Waits until the policy gates: that takes a moment after its creation.
    async fn until_gated(&self) -> Result<()> {
        wait_for(&self.site.scene, "the gate is on", async || {
            let params = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            let made = self
                .machines(Shape::ProviderConfig)
                .create(&params, &object("probe", Shape::ProviderConfig, Value::Null))
                .await;
            Ok(match made {
                Ok(made) if Machine::of(Shape::ProviderConfig, &made).is_gated() => Seen::There,
                Ok(_) => Seen::NotYet("not gated".to_owned()),
                Err(error) => Seen::NotYet(error.to_string()),
            })
        })
        .await
    }

    pub fn machines(&self, shape: Shape) -> Api<DynamicObject> {
        let resource = shape.resource();
        match shape {
            Shape::ProviderConfig => Api::all_with(self.site.scene.client.clone(), &resource),
            Shape::ProviderSpec => {
                Api::namespaced_with(self.site.scene.client.clone(), "kube-system", &resource)
            }
        }
    }

    pub async fn create(&self, name: &str, shape: Shape) {
        let object = object(name, shape, Value::Null);
        self.machines(shape)
            .create(&PostParams::default(), &object)
            .await
            .unwrap();
    }

    pub async fn create_with(&self, name: &str, initializers: &str) -> DynamicObject {
        let object = object(name, Shape::ProviderConfig, json!({INITIALIZERS: initializers}));
        self.machines(Shape::ProviderConfig)
            .create(&PostParams::default(), &object)
            .await
            .unwrap()
    }

    pub async fn delete(&self, name: &str) {
        let api = self.machines(Shape::ProviderConfig);
        api.delete(name, &DeleteParams::background()).await.unwrap();
    }

    /// Starts machine IPAM under its own role. The process ends with the stage.
    pub fn start(&self, name: &str, networks: &[&str]) -> Component {
        // With one dash, which must work, too.
        let networks = networks.iter().flat_map(|network| ["-network", network]);
        let flags: Vec<&str> = networks.collect();
        let name = format!("machine-ipam-{name}");
        self.site.start(&name, "machine-ipam", &self.kubeconfig, &flags)
    }

    pub async fn led(&self) {
        let leases: Api<Lease> = Api::namespaced(self.site.scene.client.clone(), "kube-system");
        wait_for(&self.site.scene, "somebody leads", async || {
            let lease = leases.get_opt("berth-machine-ipam").await?;
            let holder = lease.and_then(|lease| lease.spec).and_then(|spec| spec.holder_identity);
            Ok(if holder.is_some_and(|holder| !holder.is_empty()) {
                Seen::There
            } else {
                Seen::NotYet(String::new())
            })
        })
        .await
        .unwrap();
    }

    /// The machines of both shapes that have a network, by name.
    pub async fn with_network(&self) -> Result<BTreeMap<String, Machine>> {
        let mut found = BTreeMap::new();
        for shape in Shape::ALL {
            for object in self.machines(shape).list(&ListParams::default()).await? {
                let machine = Machine::of(shape, &object);
                if matches!(machine.network, Ok(Some(_))) {
                    found.insert(object.name_any(), machine);
                }
            }
        }
        Ok(found)
    }

    pub async fn provisioned(&self) -> Result<usize> {
        let found = self.with_network().await?;
        let phase = |machine: &Machine| machine.value.pointer("/status/phase").cloned();
        Ok(found
            .values()
            .filter(|machine| phase(machine) == Some(json!("Provisioned")))
            .count())
    }

    pub async fn owned(&self) -> Result<usize> {
        let blocks: Api<AddressBlock> = Api::all(self.site.scene.client.clone());
        let blocks = blocks.list(&ListParams::default()).await.context("listing blocks")?;
        Ok(blocks.items.iter().map(|block| block.spec.owned.len()).sum())
    }

    pub fn steps(&self, name: &str) -> Vec<Step> {
        self.watched.lock().steps.get(name).cloned().unwrap_or_default()
    }

    pub fn broken(&self) -> Vec<String> {
        self.watched.lock().broken.clone()
    }
}

/// Records every version that a watch shows.
async fn watch(api: Api<DynamicObject>, watched: Arc<Mutex<Watched>>) {
    let mut events = std::pin::pin!(
        watcher(api, watcher::Config::default())
            .default_backoff()
            .applied_objects()
    );
    while let Some(event) = events.next().await {
        let Ok(object) = event else {
            continue;
        };
        if object.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let machine = Machine::of(Shape::ProviderConfig, &object);
        let phase = machine.value.pointer("/status/phase").and_then(Value::as_str);
        let step = match (machine.is_gated(), phase) {
            (true, _) => Step::Gated,
            (false, Some("Provisioned")) => Step::Provisioned,
            (false, _) => Step::Open,
        };
        let name = object.name_any();
        let mut watched = watched.lock();
        if !machine.is_gated() && !matches!(machine.network, Ok(Some(_))) {
            watched.broken.push(name.clone());
        }
        let steps = watched.steps.entry(name).or_default();
        if steps.last() != Some(&step) {
            steps.push(step);
        }
    }
}

pub fn object(name: &str, shape: Shape, annotations: Value) -> DynamicObject {
    let mut metadata = json!({"name": name});
    if !annotations.is_null() {
        metadata["annotations"] = annotations;
    }
    let spec = match shape {
        Shape::ProviderConfig => json!({"providerConfig": {"cloud": "x"}}),
        Shape::ProviderSpec => json!({"providerSpec": {"value": {"cloud": "x"}}}),
    };
    let object = json!({
        "apiVersion": shape.resource().api_version, "kind": "Machine", "metadata": metadata, "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

/// A ServiceAccount with the role that a user of that name has.
fn account() -> String {
    let subject = json!([{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "kube-system"}]);
    let binding = |kind: &str, role: &str, metadata: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, "subjects": subject,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": ACCOUNT},
        })
    };
    let documents = [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": "kube-system"}}),
        binding(
            "ClusterRoleBinding",
            "ClusterRole",
            json!({"name": "machine-ipam-account"}),
        ),
        binding(
            "RoleBinding",
            "Role",
            json!({"name": "machine-ipam-account", "namespace": "kube-system"}),
        ),
    ];
    documents.map(|document| document.to_string()).join("\n---\n")
}
