//! The cluster that people meet: its nodes, agents, controllers and pods.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use berth_addr::Prefix;
use berth_agent::{
    Agent, AgentContext, AgentMetrics, Machine as MachineIds, Options, RunError, Standing, run,
};
use berth_api::agent::{Release, Request};
use berth_api::cni::{Attachment, PodRef};
use berth_api::names::NAMESPACE;
use berth_api::{AddressBlock, NodeNetworkConfig, Subnet};
use berth_kit::events::{EventMetrics, Recorder};
use berth_ledger::store::{KubernetesStore, MemoryStore, Store};
use berth_ledger::{Clock, Ledger, LedgerMetrics};
use berth_nodenet::allocator::local::LocalAllocator;
use berth_nodenet::controllers::{self, Controller, ControllerMetrics, DEFAULT_NODE_GRACE};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::events::Reporter;
use kube::{Api, Client, ResourceExt};
use prometheus_client::registry::Registry;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;

/// What no pod has for certain, however long it takes to find out.
const QUIET: Duration = Duration::from_secs(15 * 60);

/// What a cluster begins with.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    /// Of the cluster, and of its only Subnet.
    pub name: &'static str,
    pub cidr: String,
    pub nodes: usize,
}

pub struct Cluster {
    pub plan: Plan,
    pub client: Client,
    pub connection: Connection,
    pub random: StdRng,
    pub ledger: Stored,
    pub controllers: Vec<JoinHandle<()>>,
    pub nodes: BTreeMap<String, Machine>,
    /// By name: those that the API has.
    pub pods: BTreeMap<String, Placed>,
    pub made: u32,
    /// Another cluster on the same store, with a Subnet of another name and the same CIDR.
    pub neighbour: Option<Box<Cluster>>,
    clock: berth_agent::Clock,
}

/// Where the ledger is, and a copy of it from before.
pub enum Stored {
    Memory { now: MemoryStore, copy: MemoryStore },
    Kubernetes { copy: Vec<AddressBlock> },
}

impl Stored {
    pub fn in_memory(store: &MemoryStore) -> Self {
        Self::Memory {
            now: store.clone(),
            copy: store.copy(),
        }
    }
}

/// A machine with its disk, and the agents that run on it.
pub struct Machine {
    pub directory: TempDir,
    pub agent: Option<Running>,
    /// One more for the same node, which somebody started beside it.
    pub second: Option<Running>,
}

/// Where a second agent for a node is started.
#[derive(Clone, Copy, Debug)]
pub enum Beside {
    /// On the same machine, with a state directory of its own.
    SameMachine,
    /// On another machine that has the same name: a clone, or one that was left over.
    OtherMachine,
}

pub struct Running {
    pub agent: watch::Receiver<Option<Agent>>,
    pub task: JoinHandle<()>,
}

#[derive(Clone)]
pub struct Placed {
    pub node: String,
    pub uid: String,
    pub addresses: Vec<IpAddr>,
    /// The second agent of the node answered.
    pub by_second: bool,
}

impl Cluster {
    pub async fn start(client: Client, plan: Plan, ledger: Stored) -> Self {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let params = PatchParams::apply("people").force();
        for crd in berth_api::crds::all() {
            api.patch(&crd.name_any(), &params, &Patch::Apply(&crd)).await.unwrap();
        }
        let spec = json!({"cidrs": [plan.cidr], "reuseDelay": "5s"});
        let spec = json!({"metadata": {"name": plan.name}, "spec": spec});
        loop {
            let subnet: Subnet = serde_json::from_value(spec.clone()).unwrap();
            let made = Api::all(client.clone()).create(&PostParams::default(), &subnet).await;
            if made.is_ok() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let nodes = plan.nodes;
        let mut cluster = Self {
            client,
            connection: Connection::default(),
            random: StdRng::seed_from_u64(plan.seed),
            ledger,
            controllers: Vec::new(),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            made: 0,
            neighbour: None,
            plan,
            clock: berth_agent::Clock::runtime(),
        };
        cluster.start_controller();
        for n in 1..=nodes {
            let name = format!("node-{n}");
            let machine = Machine {
                directory: tempfile::tempdir().unwrap(),
                agent: None,
                second: None,
            };
            cluster.nodes.insert(name.clone(), machine);
            cluster.register(&name, "first").await;
            cluster.start_agent(&name);
        }
        cluster.settle(Duration::from_secs(2)).await;
        cluster
    }

    pub fn nncs(&self) -> Api<NodeNetworkConfig> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    pub fn subnets(&self) -> Api<Subnet> {
        Api::all(self.client.clone())
    }

    pub fn blocks(&self) -> Api<AddressBlock> {
        Api::all(self.client.clone())
    }

    pub fn api_nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub fn api_pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// As a kubelet does, on this machine.
    pub async fn register(&self, name: &str, machine: &str) {
        let info = json!({
            "machineID": format!("{machine}-{name}"), "systemUUID": format!("{machine}-{name}"),
            "bootID": format!("{machine}-{name}"),
            "architecture": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
            "kubeletVersion": "", "operatingSystem": "", "osImage": "",
        });
        let addresses = json!([{"type": "InternalIP", "address": "192.0.2.1"}]);
        let node: Node = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        drop(self.api_nodes().create(&PostParams::default(), &node).await);
        // The API takes a status only through its own path.
        let status = Patch::Merge(json!({"status": {"addresses": addresses, "nodeInfo": info}}));
        drop(
            self.api_nodes()
                .patch_status(name, &PatchParams::default(), &status)
                .await,
        );
    }

    fn store(&self) -> Arc<dyn Store> {
        match &self.ledger {
            Stored::Memory { now, .. } => Arc::new(now.clone()),
            Stored::Kubernetes { .. } => {
                Arc::new(KubernetesStore::new(self.connection.to(self.client.clone())))
            }
        }
    }

    pub fn stop_controllers(&mut self) {
        self.controllers.drain(..).for_each(|controller| controller.abort());
    }

    pub fn stop_second_agents(&mut self) {
        for machine in self.nodes.values_mut() {
            if let Some(running) = machine.second.take() {
                running.task.abort();
            }
        }
    }

    pub fn start_controller(&mut self) {
        let clock = Clock::system();
        let ledger = Ledger::new(self.store(), clock, LedgerMetrics::unregistered());
        let options = controllers::Options {
            client: self.connection.to(self.client.clone()),
            allocator: Arc::new(LocalAllocator::new(ledger)),
            cluster: self.plan.name.to_owned(),
            controllers: Controller::on_by_default(),
            clock,
            metrics: ControllerMetrics::unregistered(),
            instance: None,
            seed: Some(self.plan.seed),
            node_grace: DEFAULT_NODE_GRACE,
            stop: CancellationToken::new(),
        };
        let running = async move { controllers::run(options).await.unwrap() };
        self.controllers.push(tokio::spawn(running));
    }

    pub fn start_agent(&mut self, node: &str) {
        let options = self.options(node);
        let running = self.run_agent(options);
        self.nodes.get_mut(node).unwrap().agent = Some(running);
    }

    pub fn start_second_agent(&mut self, node: &str, beside: Beside) {
        let first = self.options(node);
        let directory = self.nodes[node].directory.path().join("second");
        let other = Options::new(node, &directory);
        let options = match beside {
            Beside::SameMachine => Options {
                socket: other.socket,
                state_dir: other.state_dir,
                queue_dir: other.queue_dir,
                ..first
            },
            Beside::OtherMachine => Options {
                machine: machine_of("left-over", node),
                boot: "left-over".to_owned(),
                clock: self.clock,
                ..other
            },
        };
        let running = self.run_agent(options);
        self.nodes.get_mut(node).unwrap().second = Some(running);
    }

    fn options(&self, node: &str) -> Options {
        Options {
            boot: "boot".to_owned(),
            machine: machine_of("first", node),
            clock: self.clock,
            rest: Duration::from_secs(5),
            ..Options::new(node, self.nodes[node].directory.path())
        }
    }

    fn run_agent(&self, options: Options) -> Running {
        let client = self.connection.to(self.client.clone());
        let mut registry = Registry::default();
        let reporter = Reporter {
            controller: "berth-agent".to_owned(),
            instance: None,
        };
        let event_metrics = EventMetrics::register(&mut registry);
        let (events, writer) =
            Recorder::new(client.clone(), reporter, &event_metrics, StdRng::seed_from_u64(4));
        let context = AgentContext {
            client,
            metrics: AgentMetrics::register(&mut registry),
            events,
        };
        let (sender, agent) = watch::channel(None);
        let random = StdRng::seed_from_u64(self.plan.seed);
        let task = tokio::spawn(async move {
            let _writing = tokio::spawn(writer.run(CancellationToken::new()));
            let tell = move |standing: Standing<'_>| {
                if let Standing::Serves(agent) = standing {
                    drop(sender.send(Some(agent.clone())));
                }
            };
            match run(options, context, random, tell, CancellationToken::new()).await {
                Ok(()) | Err(RunError::Lock(_)) => {}
                Err(error) => panic!("{error}"),
            }
        });
        Running { agent, task }
    }

    /// The one that serves; of two that do, whichever has answered the pod.
    pub fn agent(&self, node: &str, second: bool) -> Option<Agent> {
        let machine = self.nodes.get(node)?;
        let running = if second { &machine.second } else { &machine.agent };
        running.as_ref()?.agent.borrow().clone()
    }

    /// Time passes, and the kubelets do their work in it.
    pub async fn settle(&mut self, time: Duration) {
        let step = Duration::from_millis(500);
        let mut left = time;
        while !left.is_zero() {
            self.attach_all().await;
            tokio::time::sleep(step.min(left)).await;
            left = left.saturating_sub(step);
        }
        self.attach_all().await;
    }

    async fn attach_all(&mut self) {
        self.attach_pods().await;
        if let Some(neighbour) = &mut self.neighbour {
            neighbour.attach_pods().await;
        }
    }

    /// A kubelet calls the plugin for each of its pods that has no address yet, and says which it
    /// got.
    async fn attach_pods(&mut self) {
        let waiting = self.pods.iter().filter(|(_, placed)| placed.addresses.is_empty());
        let waiting: Vec<(String, Placed)> =
            waiting.map(|(name, placed)| (name.clone(), placed.clone())).collect();
        for (name, placed) in waiting {
            // A plugin reaches the agent whose socket it finds. Two that both serve would take
            // turns.
            let second = self.agent(&placed.node, true);
            let by_second = second.is_some() && self.random.random_bool(0.5);
            let agent = if by_second {
                second
            } else {
                self.agent(&placed.node, false)
            };
            let Some(agent) = agent else {
                continue;
            };
            let request = Request {
                attachment: attachment(&placed.uid),
                network: "pods".to_owned(),
                pod: PodRef {
                    namespace: "default".to_owned(),
                    name: name.clone(),
                    uid: placed.uid.clone(),
                },
                started: agent.now(),
                desired: Vec::new(),
                wait_ms: 0,
            };
            let Ok(granted) = agent.request(request).await else {
                continue;
            };
            let addresses: Vec<IpAddr> = granted.addresses.iter().map(|one| one.address).collect();
            let ips: Vec<_> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
            let shown =
                json!({"status": {"phase": "Running", "podIP": addresses[0], "podIPs": ips}});
            let patched = self
                .api_pods()
                .patch_status(&name, &PatchParams::default(), &Patch::Merge(shown))
                .await;
            patched.unwrap();
            let placed = self.pods.get_mut(&name).unwrap();
            (placed.addresses, placed.by_second) = (addresses, by_second);
        }
    }

    pub async fn create_pod(&mut self, node: &str) {
        self.made += 1;
        let name = format!("web-{}", self.made);
        let pod = json!({
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "x"}]},
        });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let made = self.api_pods().create(&PostParams::default(), &pod).await.unwrap();
        let placed = Placed {
            node: node.to_owned(),
            uid: made.uid().unwrap(),
            addresses: Vec::new(),
            by_second: false,
        };
        self.pods.insert(name, placed);
    }

    /// The kubelet removes the sandbox first, and then the pod goes. Without an agent the release
    /// waits in its queue.
    pub async fn delete_pod(&mut self, name: &str) {
        let Some(placed) = self.pods.remove(name) else {
            return;
        };
        let release = |agent: &Agent| {
            let release = Release {
                attachment: attachment(&placed.uid),
                started: agent.now(),
            };
            agent.release(&release).unwrap();
        };
        match self.agent(&placed.node, placed.by_second) {
            Some(agent) => release(&agent),
            // Its sandbox stays until an agent is there: so does the pod.
            None if !placed.addresses.is_empty() => {
                self.pods.insert(name.to_owned(), placed);
                return;
            }
            None => {}
        }
        let now = DeleteParams::default().grace_period(0);
        drop(self.api_pods().delete(name, &now).await);
    }

    pub fn check_no_address_is_shared(&self) {
        let mut seen: BTreeMap<IpAddr, &str> = BTreeMap::new();
        let next_door = self.neighbour.iter().flat_map(|neighbour| &neighbour.pods);
        for (name, placed) in self.pods.iter().chain(next_door) {
            for address in &placed.addresses {
                let other = seen.insert(*address, name);
                assert_eq!(
                    other, None,
                    "seed {}: {address} is also on {name} of {}",
                    self.plan.seed, placed.node
                );
            }
        }
    }

    pub fn check_every_pod_has_an_address(&self) {
        let without = self.pods.iter().filter(|(_, placed)| placed.addresses.is_empty());
        let without: Vec<&String> = without.map(|(name, _)| name).collect();
        assert!(
            without.is_empty(),
            "seed {}: {without:?} have no address",
            self.plan.seed
        );
    }

    /// Another API server takes the place of the one that was.
    pub fn lead_to(&mut self, client: Client) {
        self.connection.lead_to(client.clone());
        self.client = client;
    }

    /// People leave it alone: everything comes to rest.
    pub async fn quiet(&mut self) {
        for name in self.nodes.keys() {
            self.register(name, "first").await;
        }
        // Its pods wait for a Subnet that is refused: that is how it is meant.
        drop(self.neighbour.take());
        self.stop_second_agents();
        self.stop_controllers();
        self.start_controller();
        let silent: Vec<String> = self.nodes.keys().cloned().collect();
        for name in silent {
            if self.nodes[&name].agent.is_none() {
                self.start_agent(&name);
            }
        }
        self.settle(Duration::from_secs(20)).await;
        tokio::time::sleep(QUIET).await;
        self.settle(Duration::from_secs(20)).await;
        self.check_no_address_is_shared();
        self.check_every_pod_has_an_address();
        self.check_nothing_is_leaked().await;
        let before = self.writes().await;
        tokio::time::sleep(Duration::from_secs(120)).await;
        assert_eq!(
            self.writes().await,
            before,
            "seed {}: something is written",
            self.plan.seed
        );
    }

    async fn check_nothing_is_leaked(&self) {
        let mut listed = BTreeSet::new();
        for nnc in self.nncs().list(&ListParams::default()).await.unwrap() {
            let containers = nnc.status.iter().flat_map(|status| &status.network_containers);
            for container in containers {
                listed.insert(container.primary_ip.clone());
                listed.extend(container.ip_assignments.iter().map(|one| one.ip.clone()));
            }
        }
        let blocks = self.store().load(self.plan.name).await.unwrap();
        let owned = blocks.iter().flat_map(|block| {
            let units = block.record.owned();
            units.map(|(offset, tenure)| (unit(block.key.first, offset), tenure.owner.to_string()))
        });
        let owned: Vec<(String, String)> = owned.collect();
        let unlisted: Vec<_> = owned.iter().filter(|(unit, _)| !listed.contains(unit)).collect();
        let units: BTreeSet<&String> = owned.iter().map(|(unit, _)| unit).collect();
        assert_eq!(
            units.len(),
            owned.len(),
            "seed {}: in two blocks: {owned:?}",
            self.plan.seed
        );
        let unowned: Vec<_> = listed.iter().filter(|one| !units.contains(one)).collect();
        assert!(
            unlisted.is_empty() && unowned.is_empty(),
            "seed {}: owned, and in no NodeNetworkConfig: {unlisted:?}; in one, and not \
             owned: {unowned:?}",
            self.plan.seed
        );
    }

    /// All that was ever written: the API's own version goes up with every write of whatever kind.
    pub async fn writes(&self) -> u64 {
        let list = self.nncs().list(&ListParams::default()).await.unwrap();
        list.metadata.resource_version.unwrap().parse().unwrap()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.controllers.iter().for_each(JoinHandle::abort);
        let agents = self
            .nodes
            .values()
            .flat_map(|machine| [&machine.agent, &machine.second]);
        agents.flatten().for_each(|running| running.task.abort());
    }
}

fn machine_of(machine: &str, node: &str) -> MachineIds {
    let id = format!("{machine}-{node}");
    MachineIds {
        boot_id: id.clone(),
        machine_id: id.clone(),
        system_uuid: id,
    }
}

fn attachment(uid: &str) -> Attachment {
    Attachment::new(&format!("sandbox-{uid}"), "eth0").unwrap()
}

/// The single address of a block that is so many after its first.
fn unit(first: Prefix, offset: u8) -> String {
    first.after(offset.into()).unwrap().first().to_string()
}
