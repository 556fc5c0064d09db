//! A cluster with Berth's kinds and controllers, agents in it, and the words that scenarios are
//! told in.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use berth_agent::{Agent, AgentContext, AgentMetrics, Machine, Options, Standing, run};
use berth_api::agent::{Reason, Release, Request};
use berth_api::cni::{Attachment, PodRef};
use berth_api::names::NAMESPACE;
use berth_api::nnc::IpAssignment;
use berth_api::{ClusterSubnetState, NodeNetworkConfig, Subnet};
use berth_kit::events::{EventMetrics, Recorder};
use berth_kit::queue::QueueMetrics;
use berth_ledger::store::MemoryStore;
use berth_ledger::{Clock, Ledger, LedgerMetrics};
use berth_nodenet::allocator::local::LocalAllocator;
use berth_nodenet::controllers::{self, Controller, ControllerMetrics, DEFAULT_NODE_GRACE};
use berth_testkit::until;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::events::Reporter;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use prometheus_client::registry::Registry;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub const BOOT: &str = "0b0e0c1a-55aa-4d4b-9c3e-6a1f0d2b7c8e";

pub struct Scene {
    pub client: Client,
    clock: berth_agent::Clock,
    boots: Cell<u32>,
    controllers: CancellationToken,
    /// The machine that agents are on from now on.
    pub machine: RefCell<Machine>,
    /// Of this machine, whichever cluster its agents are of.
    pub locks: TempDir,
}

impl Drop for Scene {
    fn drop(&mut self) {
        self.controllers.cancel();
    }
}

/// A running agent, as if it were a process.
pub struct Running {
    pub agent: Agent,
    task: JoinHandle<()>,
    /// Of one that has a directory of its own, and is not started again.
    _directory: Option<TempDir>,
}

impl Running {
    /// Until so many are free.
    pub async fn has_free(&self, count: u64) {
        let free = async || (self.agent.status().pool.free == count).then_some(());
        until(&format!("{count} are free"), free).await;
    }

    /// Wherever it is.
    pub async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

impl Scene {
    pub async fn new(client: Client) -> Self {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let params = PatchParams::apply("scene").force();
        for crd in berth_api::crds::all() {
            let name = crd.name_any();
            api.patch(&name, &params, &Patch::Apply(&crd)).await.unwrap();
            await_condition(api.clone(), &name, conditions::is_crd_established())
                .await
                .unwrap();
        }
        let clock = Clock::system();
        let ledger =
            Ledger::new(Arc::new(MemoryStore::default()), clock, LedgerMetrics::unregistered());
        let controllers = CancellationToken::new();
        let mut metrics = Registry::default();
        let queues = QueueMetrics::register(&mut metrics);
        let events = EventMetrics::register(&mut metrics);
        let options = controllers::Options {
            client: client.clone(),
            allocator: Arc::new(LocalAllocator::new(ledger)),
            cluster: "scene".to_owned(),
            controllers: Controller::on_by_default(),
            clock,
            metrics: ControllerMetrics::register(&mut metrics, queues, events),
            instance: None,
            seed: Some(7),
            node_grace: DEFAULT_NODE_GRACE,
            stop: controllers.clone(),
        };
        tokio::spawn(async move { controllers::run(options).await.unwrap() });
        Self {
            client,
            clock: berth_agent::Clock::runtime(),
            boots: Cell::new(0),
            controllers,
            machine: RefCell::default(),
            locks: tempfile::tempdir().unwrap(),
        }
    }

    pub fn nncs(&self) -> Api<NodeNetworkConfig> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub fn states(&self) -> Api<ClusterSubnetState> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    pub async fn subnet(&self, name: &str, spec: Value) {
        let api = Api::<Subnet>::all(self.client.clone());
        let subnet =
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
        api.create(&PostParams::default(), &subnet).await.unwrap();
    }

    pub fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub async fn node(&self, name: &str) {
        let addresses = json!([{"type": "InternalIP", "address": "192.0.2.1"}]);
        let node = json!({"metadata": {"name": name}, "status": {"addresses": addresses}});
        let node = serde_json::from_value(node).unwrap();
        self.nodes().create(&PostParams::default(), &node).await.unwrap();
    }

    /// With more in its status.
    pub async fn node_with(&self, name: &str, more: Value) {
        self.node(name).await;
        let (params, patch) = (PatchParams::default(), Patch::Merge(json!({ "status": more })));
        self.nodes().patch_status(name, &params, &patch).await.unwrap();
    }

    /// Pods of a node, by their numbers.
    pub async fn create_pods(&self, node: &str, numbers: std::ops::Range<u32>) {
        for n in numbers {
            self.create_pod(node, &format!("web-{n}"), json!({})).await;
        }
    }

    pub async fn create_pod(&self, node: &str, name: &str, more: Value) {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "x"}]},
        });
        for (field, value) in more.as_object().unwrap() {
            pod["spec"][field] = value.clone();
        }
        let pod = serde_json::from_value(pod).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
    }

    /// A pod runs, and says which address it has.
    pub async fn show(&self, pod: &str, address: &str) {
        let shown =
            json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}});
        let params = PatchParams::default();
        self.pods()
            .patch_status(pod, &params, &Patch::Merge(shown))
            .await
            .unwrap();
    }

    /// From now on nobody acts on what agents write.
    pub async fn stop_controllers(&self) {
        self.controllers.cancel();
        settle().await;
    }

    pub async fn delete_pods(&self, numbers: std::ops::Range<u32>) {
        for n in numbers {
            let now = DeleteParams::default().grace_period(0);
            self.pods().delete(&format!("web-{n}"), &now).await.unwrap();
        }
    }

    pub async fn nnc(&self, node: &str) -> NodeNetworkConfig {
        self.nncs().get(node).await.unwrap()
    }

    /// Until the node asks for as many, and has them.
    pub async fn has(&self, node: &str, count: usize) -> Vec<IpAssignment> {
        let what = format!("{node} has {count}");
        let found = until(&what, async || {
            let nnc = self.nncs().get_opt(node).await.unwrap()?;
            let listed = assignments(&nnc);
            let asked = usize::try_from(nnc.spec.requested_ip_count).unwrap();
            (asked == count && listed.len() == count).then_some(listed)
        });
        found.await
    }

    /// Agents that are started from now on find that the machine was.
    pub fn reboot(&self) {
        self.boots.set(self.boots.get() + 1);
    }

    /// One with a directory of its own, once it serves.
    pub async fn agent(&self, node: &str) -> Running {
        let directory = tempfile::tempdir().unwrap();
        let running = self.start(node, &directory).await.unwrap();
        Running {
            _directory: Some(directory),
            ..running
        }
    }

    pub fn start(&self, node: &str, directory: &TempDir) -> JoinHandle<Running> {
        let started = self.start_on(self.client.clone(), node, directory.path());
        tokio::spawn(started)
    }

    /// What it ends with, where it must not start.
    pub async fn refused(&self, node: &str, directory: &TempDir) -> String {
        self.refused_with(node, directory, |_| ()).await
    }

    pub async fn refused_with(
        &self,
        node: &str,
        directory: &TempDir,
        change: impl FnOnce(&mut Options),
    ) -> String {
        let (mut options, context) = self.furnish(self.client.clone(), node, directory.path());
        change(&mut options);
        let ended = run(
            options,
            context,
            StdRng::seed_from_u64(3),
            |_| (),
            CancellationToken::new(),
        );
        ended.await.unwrap_err().to_string()
    }

    /// Until it serves, with another way to the same API server.
    pub fn start_on(
        &self,
        client: Client,
        node: &str,
        directory: &Path,
    ) -> impl Future<Output = Running> + use<> {
        let (options, context) = self.furnish(client, node, directory);
        let (sender, ready) = oneshot::channel();
        let task = tokio::spawn(async move {
            let mut sender = Some(sender);
            let tell = move |standing: Standing<'_>| {
                if let Standing::Serves(agent) = standing
                    && let Some(sender) = sender.take()
                {
                    drop(sender.send(agent.clone()));
                }
            };
            let running = run(
                options,
                context,
                StdRng::seed_from_u64(3),
                tell,
                CancellationToken::new(),
            );
            running.await.unwrap();
        });
        async move {
            let agent = ready.await.expect("the agent serves");
            Running {
                agent,
                task,
                _directory: None,
            }
        }
    }

    fn furnish(&self, client: Client, node: &str, directory: &Path) -> (Options, AgentContext) {
        let options = Options {
            boot: format!("{BOOT}-{}", self.boots.get()),
            clock: self.clock,
            lock_dir: self.locks.path().to_owned(),
            machine: self.machine.borrow().clone(),
            ..Options::new(node, directory)
        };
        let mut registry = Registry::default();
        let reporter = Reporter {
            controller: "berth-agent".to_owned(),
            instance: None,
        };
        let event_metrics = EventMetrics::register(&mut registry);
        let (events, writer) =
            Recorder::new(self.client.clone(), reporter, &event_metrics, StdRng::seed_from_u64(4));
        tokio::spawn(writer.run(self.controllers.clone()));
        let context = AgentContext {
            client,
            metrics: AgentMetrics::register(&mut registry),
            events,
        };
        (options, context)
    }
}

pub fn assignments(nnc: &NodeNetworkConfig) -> Vec<IpAssignment> {
    let containers = nnc.status.iter().flat_map(|status| &status.network_containers);
    containers
        .flat_map(|container| container.ip_assignments.clone())
        .collect()
}

pub fn request(agent: &Agent, n: u32) -> Request {
    Request {
        attachment: Attachment::new(&format!("container-{n}"), "eth0").unwrap(),
        network: "pods".to_owned(),
        pod: PodRef {
            namespace: "default".to_owned(),
            name: format!("web-{n}"),
            uid: String::new(),
        },
        started: agent.now(),
        desired: Vec::new(),
        wait_ms: 0,
    }
}

/// The addresses, or why there are none.
pub async fn add(agent: &Agent, n: u32) -> Result<Vec<String>, Reason> {
    let granted = agent
        .request(request(agent, n))
        .await
        .map_err(|refusal| refusal.reason)?;
    Ok(granted.addresses.iter().map(|one| one.address.to_string()).collect())
}

pub fn del(agent: &Agent, n: u32) -> u64 {
    let release = Release {
        attachment: request(agent, n).attachment,
        started: agent.now(),
    };
    agent.release(&release).unwrap().released
}

/// Whatever is under way comes to its end.
pub async fn settle() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}
