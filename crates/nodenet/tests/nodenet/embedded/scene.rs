//! A cluster with Berth's kinds, a store that several controllers can share, and the words that
//! scenarios are told in.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use berth_api::nnc::NetworkContainer;
use berth_api::{ClusterSubnetState, NodeNetworkConfig, NodeNetworkConfigStatus, Subnet, names};
use berth_kit::events::EventMetrics;
use berth_kit::queue::QueueMetrics;
use berth_ledger::store::Store;
use berth_ledger::{Clock, Ledger, LedgerMetrics};
use berth_nodenet::allocator::local::LocalAllocator;
use berth_nodenet::allocator::{Allocator, ContainerRef};
use berth_nodenet::controllers::{self, Controller, ControllerMetrics};
use berth_testkit::{until, until_ok, within};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, Resource, ResourceExt};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub struct Scene {
    pub client: Client,
    /// The controllers' own.
    acting: Client,
    store: Arc<dyn Store>,
    service: Option<Service>,
    clock: Clock,
    pace: Pace,
}

/// An allocator over the scene's store that controllers call, instead of each having a ledger.
#[allow(dead_code, reason = "only one of the programs has one")]
pub struct Service {
    pub allocator: Arc<dyn Allocator>,
    /// The cluster that it takes the callers for.
    pub cluster: String,
    /// Of the subnets that they make known.
    pub network: String,
}

/// Whether the scenario's time is its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "each server has one of them")]
pub enum Pace {
    /// Time passes only while nothing is under way: how long something takes says how often
    /// somebody waited.
    Stopped,
    /// As on any machine: how long something takes says nothing.
    Running,
}

/// A controller, as if it were a process: with a ledger of its own over the scene's store, if there
/// is no service.
pub struct Running {
    pub allocator: Arc<dyn Allocator>,
    pub ledger: Option<Ledger>,
    metrics: Registry,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }

    /// As it is scraped: each name with its labels, and its value.
    pub fn metric(&self, name: &str) -> Option<String> {
        let mut text = String::new();
        encode(&mut text, &self.metrics).unwrap();
        let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        lines
            .find(|(found, _)| *found == name)
            .map(|(_, value)| value.to_owned())
    }

    /// Wherever it is.
    pub fn kill(self) {
        self.task.abort();
    }
}

impl Scene {
    pub async fn new(client: Client, store: Arc<dyn Store>, pace: Pace) -> Self {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let params = PatchParams::apply("scene").force();
        for crd in berth_api::crds::all() {
            let name = crd.name_any();
            api.patch(&name, &params, &Patch::Apply(&crd)).await.unwrap();
            let established = await_condition(api.clone(), &name, conditions::is_crd_established());
            within(&format!("{name} is established"), established).await.unwrap();
        }
        let scene = Self {
            acting: client.clone(),
            client,
            store,
            service: None,
            clock: Clock::system(),
            pace,
        };
        // Established comes a moment before the kind is served.
        let few = ListParams::default().limit(1);
        until("subnets are served", async || scene.subnets().list(&few).await.ok()).await;
        until("nncs are served", async || scene.nncs().list(&few).await.ok()).await;
        until("states are served", async || scene.states().list(&few).await.ok()).await;
        scene
    }

    #[allow(dead_code, reason = "only one of the programs has a service")]
    pub fn through(self, service: Service) -> Self {
        let service = Some(service);
        Self { service, ..self }
    }

    /// The controllers are somebody else than who tells the story.
    #[allow(dead_code, reason = "only where there are roles")]
    pub fn acting_as(self, acting: Client) -> Self {
        Self { acting, ..self }
    }

    /// Since then nobody has waited for a time to come.
    pub fn check_at_once(&self, since: Instant) {
        assert!(self.pace == Pace::Running || since.elapsed() < Duration::from_secs(1));
    }

    pub fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub fn nncs(&self) -> Api<NodeNetworkConfig> {
        Api::namespaced(self.client.clone(), names::NAMESPACE)
    }

    pub fn subnets(&self) -> Api<Subnet> {
        Api::all(self.client.clone())
    }

    pub fn states(&self) -> Api<ClusterSubnetState> {
        Api::namespaced(self.client.clone(), names::NAMESPACE)
    }

    /// Those that run by default.
    pub fn start(&self) -> Running {
        self.start_with(Controller::on_by_default(), self.node_grace())
    }

    /// Where the clock runs, nobody wants to wait for minutes.
    pub fn node_grace(&self) -> Duration {
        match self.pace {
            Pace::Stopped => controllers::DEFAULT_NODE_GRACE,
            Pace::Running => Duration::from_secs(20),
        }
    }

    pub fn start_with(&self, controllers: BTreeSet<Controller>, grace: Duration) -> Running {
        self.start_on(self.acting.clone(), controllers, grace)
    }

    /// With another way to the same API server.
    pub fn start_on(
        &self,
        client: Client,
        controllers: BTreeSet<Controller>,
        grace: Duration,
    ) -> Running {
        let (allocator, ledger, cluster): (Arc<dyn Allocator>, _, _) = match &self.service {
            Some(service) => (Arc::clone(&service.allocator), None, service.cluster.clone()),
            None => {
                let ledger =
                    Ledger::new(Arc::clone(&self.store), self.clock, LedgerMetrics::unregistered());
                let allocator = LocalAllocator::new(ledger.clone());
                (Arc::new(allocator), Some(ledger), "scene".to_owned())
            }
        };
        let stop = CancellationToken::new();
        let mut metrics = Registry::default();
        let queues = QueueMetrics::register(&mut metrics);
        let events = EventMetrics::register(&mut metrics);
        let options = controllers::Options {
            client,
            allocator: Arc::clone(&allocator),
            cluster,
            controllers,
            clock: self.clock,
            metrics: ControllerMetrics::register(&mut metrics, queues, events),
            instance: None,
            seed: Some(7),
            node_grace: grace,
            stop: stop.clone(),
        };
        let task = tokio::spawn(async move { controllers::run(options).await.unwrap() });
        Running {
            allocator,
            ledger,
            metrics,
            stop,
            task,
        }
    }

    /// As the controllers call a node's container.
    pub fn container_ref(&self, node: &str, uid: &str) -> ContainerRef {
        let cluster = self.service.as_ref().map_or("scene", |service| &service.cluster);
        ContainerRef {
            cluster: cluster.to_owned(),
            node: node.to_owned(),
            uid: uid.to_owned(),
        }
    }

    pub async fn subnet(&self, name: &str, spec: Value) -> Subnet {
        self.create(&self.subnets(), json!({"metadata": {"name": name}, "spec": spec}))
            .await
    }

    /// A node as a kubelet registers it. Its address follows from its name, so that no two have the
    /// same.
    pub async fn node(&self, name: &str) -> Node {
        let number: u32 = name.bytes().map(u32::from).sum();
        let address = format!("192.0.{}.{}", number / 256, number % 256);
        let labels = json!({"kubernetes.io/hostname": name});
        self.create(&self.nodes(), json!({"metadata": {"name": name, "labels": labels}}))
            .await;
        // Not every server takes the status of a new Node.
        let addresses =
            json!({"status": {"addresses": [{"type": "InternalIP", "address": address}]}});
        let params = PatchParams::default();
        self.nodes()
            .patch_status(name, &params, &Patch::Merge(addresses))
            .await
            .unwrap()
    }

    pub async fn create<K>(&self, api: &Api<K>, object: Value) -> K
    where
        K: Resource + Clone + Debug + Serialize + DeserializeOwned,
    {
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap()
    }

    pub async fn patch<K>(&self, api: &Api<K>, name: &str, patch: Value) -> K
    where
        K: Resource + Clone + Debug + DeserializeOwned,
    {
        let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
        patched.unwrap()
    }

    pub async fn delete<K>(&self, api: &Api<K>, name: &str)
    where
        K: Resource + Clone + Debug + DeserializeOwned,
    {
        api.delete(name, &DeleteParams::background()).await.unwrap();
    }

    /// As an agent asks.
    pub async fn ask(&self, node: &str, count: i64, not_in_use: &[String]) -> NodeNetworkConfig {
        let spec = json!({"spec": {"requestedIPCount": count, "ipsNotInUse": not_in_use}});
        self.patch(&self.nncs(), node, spec).await
    }

    /// The node's NNC once it is so.
    pub async fn nnc(
        &self,
        node: &str,
        what: &str,
        is_so: impl Fn(&NodeNetworkConfig) -> bool,
    ) -> NodeNetworkConfig {
        until_ok(&format!("{node} {what}"), async || {
            let nnc = self.nncs().get_opt(node).await.unwrap();
            nnc.clone().filter(&is_so).ok_or(nnc)
        })
        .await
    }

    pub async fn container(&self, node: &str) -> NetworkContainer {
        let nnc = self
            .nnc(node, "has a container", |nnc| containers(nnc).len() == 1)
            .await;
        containers(&nnc).remove(0)
    }

    pub async fn with_addresses(&self, node: &str, count: usize) -> NetworkContainer {
        let what = format!("has {count} addresses");
        let has = |nnc: &NodeNetworkConfig| addresses(nnc).len() == count;
        let nnc = self.nnc(node, &what, has).await;
        containers(&nnc).remove(0)
    }

    pub async fn subnet_once(
        &self,
        name: &str,
        what: &str,
        is_so: impl Fn(&Subnet) -> bool,
    ) -> Subnet {
        let what = format!("subnet {name} {what}");
        until(&what, async || {
            self.subnets().get_opt(name).await.unwrap().filter(&is_so)
        })
        .await
    }

    pub async fn ready(&self, name: &str) -> Subnet {
        self.subnet_once(name, "is ready", |subnet| condition(subnet, "Ready").0 == "True")
            .await
    }

    /// The controllers' events about the object of that kind and name, by reason, with what they
    /// say. A cluster has others, too.
    pub async fn events(&self, kind: &str, name: &str) -> BTreeMap<String, String> {
        let events = Api::<Event>::all(self.client.clone())
            .list(&ListParams::default())
            .await
            .unwrap();
        let about = events.items.into_iter().filter(|event| {
            let regarding = event.regarding.clone().unwrap_or_default();
            let ours = event.reporting_controller.as_deref().unwrap_or_default();
            ours.starts_with("berth")
                && regarding.kind.as_deref() == Some(kind)
                && regarding.name.as_deref() == Some(name)
        });
        about
            .map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default()))
            .collect()
    }

    pub async fn event(&self, kind: &str, name: &str, reason: &str) -> String {
        let what = format!("{kind} {name} has an event {reason}");
        until(&what, async || self.events(kind, name).await.remove(reason)).await
    }

    /// What must hold at any moment: no address is in two NNCs, or twice in one.
    pub async fn check_no_address_is_given_twice(&self) {
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for nnc in self.nncs().list(&ListParams::default()).await.unwrap() {
            // One that goes says what it had; that may be another's before it is gone.
            if nnc.metadata.deletion_timestamp.is_some() {
                continue;
            }
            for container in containers(&nnc) {
                // What an agent has given back it does not use, whether the list says so already or
                // not.
                let given_back = |name: &String| nnc.spec.ips_not_in_use.contains(name);
                let in_use = container.ip_assignments.iter().filter(|one| !given_back(&one.name));
                let assigned = in_use.map(|assignment| assignment.ip.clone());
                let primaries =
                    [Some(container.primary_ip.clone()), container.primary_ip_v6.clone()];
                for address in primaries.into_iter().flatten().chain(assigned) {
                    let other = seen.insert(address.clone(), nnc.name_any());
                    assert_eq!(other, None, "{address} is also of {}", nnc.name_any());
                }
            }
        }
    }

    /// How many units of the subnet have an owner, in the store itself.
    pub async fn owned(&self, subnet: &str) -> usize {
        let key = match &self.service {
            Some(service) => format!("{}.{subnet}", service.network),
            None => subnet.to_owned(),
        };
        let blocks = self.store.load(&key).await.unwrap();
        blocks.iter().map(|block| block.record.owned().count()).sum()
    }
}

pub fn status(nnc: &NodeNetworkConfig) -> NodeNetworkConfigStatus {
    nnc.status.clone().unwrap_or_default()
}

pub fn containers(nnc: &NodeNetworkConfig) -> Vec<NetworkContainer> {
    status(nnc).network_containers
}

pub fn addresses(nnc: &NodeNetworkConfig) -> Vec<String> {
    let containers = containers(nnc);
    let assignments = containers.iter().flat_map(|container| &container.ip_assignments);
    assignments.map(|assignment| assignment.ip.clone()).collect()
}

pub fn names_of(container: &NetworkContainer) -> Vec<String> {
    container
        .ip_assignments
        .iter()
        .map(|assignment| assignment.name.clone())
        .collect()
}

/// Status, reason and message.
pub fn condition(subnet: &Subnet, type_: &str) -> (String, String, String) {
    let conditions = subnet.status.iter().flat_map(|status| &status.conditions);
    let found = conditions.into_iter().find(|condition| condition.type_ == type_);
    found.map_or_else(Default::default, |found| {
        (found.status.clone(), found.reason.clone(), found.message.clone())
    })
}

/// Long enough for everything that is under way to be done.
pub async fn settle() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}
