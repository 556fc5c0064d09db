//! A cluster with Machines of both shapes, and the words that scenarios are told in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use berth_api::Subnet;
use berth_kit::events::EventMetrics;
use berth_kit::queue::QueueMetrics;
use berth_ledger::store::Store;
use berth_ledger::{Clock, Ledger, LedgerMetrics};
use berth_machines::machine::{INITIALIZER, INITIALIZERS, Machine, Shape};
use berth_machines::metrics::MachineMetrics;
use berth_machines::{capi, ipam};
use berth_nodenet::allocator::local::LocalAllocator;
use berth_nodenet::controllers::{self, Controller, ControllerMetrics};
pub use berth_testkit::until;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub struct Scene {
    pub client: Client,
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    pub metrics: MachineMetrics,
    pub registry: Registry,
}

/// A process with the subnet controller and machine IPAM on one ledger.
pub struct Running {
    pub ledger: Ledger,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Running {
    pub async fn stop(self) {
        self.stop.cancel();
        for task in self.tasks {
            task.await.unwrap();
        }
    }

    /// Wherever it is.
    pub fn kill(self) {
        self.tasks.into_iter().for_each(|task| task.abort());
    }
}

impl Scene {
    pub async fn new(client: Client, store: Arc<dyn Store>) -> Self {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let params = PatchParams::apply("scene").force();
        let machines = berth_api::crds::machines::all().unwrap();
        for crd in berth_api::crds::all().into_iter().chain(machines) {
            let name = crd.name_any();
            api.patch(&name, &params, &Patch::Apply(&crd)).await.unwrap();
            let established = await_condition(api.clone(), &name, conditions::is_crd_established());
            established.await.unwrap();
        }
        let clock = Clock::system();
        let mut registry = Registry::default();
        Self {
            client,
            store,
            clock,
            metrics: MachineMetrics::register(&mut registry),
            registry,
        }
    }

    /// A metric with its labels, as it is scraped.
    pub fn metric(&self, line: &str) -> u64 {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        let value = text
            .lines()
            .find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
        value
            .unwrap_or_else(|| panic!("{line} is not in {text}"))
            .parse()
            .unwrap()
    }

    pub fn start(&self, networks: &[&str]) -> Running {
        self.start_with(self.client.clone(), networks)
    }

    /// A process that sees the API server by another client.
    pub fn start_with(&self, client: Client, networks: &[&str]) -> Running {
        let ledger =
            Ledger::new(Arc::clone(&self.store), self.clock, LedgerMetrics::unregistered());
        let stop = CancellationToken::new();
        let mut registry = Registry::default();
        let queues = QueueMetrics::register(&mut registry);
        let events = EventMetrics::register(&mut registry);
        let subnets = controllers::Options {
            client: client.clone(),
            allocator: Arc::new(LocalAllocator::new(ledger.clone())),
            cluster: "scene".to_owned(),
            controllers: BTreeSet::from([Controller::Subnet]),
            clock: self.clock,
            metrics: ControllerMetrics::register(&mut registry, queues.clone(), events.clone()),
            instance: None,
            seed: Some(7),
            node_grace: controllers::DEFAULT_NODE_GRACE,
            stop: stop.clone(),
        };
        let machines = ipam::Options {
            client: client.clone(),
            ledger: ledger.clone(),
            cluster: "scene".to_owned(),
            networks: networks.iter().map(|text| text.parse().unwrap()).collect(),
            clock: self.clock,
            queues,
            events,
            metrics: self.metrics.clone(),
            instance: None,
            seed: Some(8),
            grace: ipam::DEFAULT_GRACE,
            stop: stop.clone(),
        };
        let claims = capi::Options {
            client: client.clone(),
            ledger: ledger.clone(),
            cluster: "scene".to_owned(),
            clock: self.clock,
            queues: machines.queues.clone(),
            events: machines.events.clone(),
            metrics: self.metrics.clone(),
            instance: None,
            seed: Some(9),
            grace: capi::DEFAULT_GRACE,
            stop: stop.clone(),
        };
        let tasks = vec![
            tokio::spawn(async move { controllers::run(subnets).await.unwrap() }),
            tokio::spawn(async move { ipam::run(machines).await.unwrap() }),
            tokio::spawn(async move { capi::run(claims).await.unwrap() }),
        ];
        Running { ledger, stop, tasks }
    }

    pub fn machines(&self, shape: Shape) -> Api<DynamicObject> {
        let resource = shape.resource();
        match shape {
            Shape::ProviderConfig => Api::all_with(self.client.clone(), &resource),
            Shape::ProviderSpec => {
                Api::namespaced_with(self.client.clone(), "kube-system", &resource)
            }
        }
    }

    pub fn subnets(&self) -> Api<Subnet> {
        Api::all(self.client.clone())
    }

    /// Cluster API's kinds, as far as the contract goes.
    pub async fn with_cluster_api(&self, versions: &[&str]) {
        let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        let kinds = [
            ("ipam.cluster.x-k8s.io", "IPAddressClaim", "ipaddressclaims"),
            ("ipam.cluster.x-k8s.io", "IPAddress", "ipaddresses"),
            ("cluster.x-k8s.io", "Cluster", "clusters"),
        ];
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        for (group, kind, plural) in kinds {
            let each = versions.iter().enumerate().map(|(number, version)| {
                json!({
                    "name": version, "served": true, "storage": number == 0, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": open},
                })
            });
            let versions: Vec<Value> = each.collect();
            let crd = json!({
                "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": {"name": format!("{plural}.{group}")},
                "spec": {
                    "group": group, "scope": "Namespaced", "versions": versions,
                    "names": {"kind": kind, "plural": plural},
                },
            });
            let crd: CustomResourceDefinition = serde_json::from_value(crd).unwrap();
            let name = crd.name_any();
            api.create(&PostParams::default(), &crd).await.unwrap();
            await_condition(api.clone(), &name, conditions::is_crd_established())
                .await
                .unwrap();
        }
    }

    /// As it is once admission has put the gate on it.
    pub async fn gated(&self, name: &str) -> DynamicObject {
        self.create(Shape::ProviderConfig, name, INITIALIZER, Value::Null).await
    }

    pub async fn create(
        &self,
        shape: Shape,
        name: &str,
        initializers: &str,
        network: Value,
    ) -> DynamicObject {
        let mut metadata = json!({"name": name, "annotations": {INITIALIZERS: initializers}});
        if initializers.is_empty() {
            metadata["annotations"] = json!({});
        }
        let mut spec = shape.spec_with(&network);
        if network.is_null() {
            spec = json!({"providerConfig": {"cloud": "x"}, "providerSpec": {"value": {"cloud": "x"}}});
        }
        let resource = shape.resource();
        let object = json!({
            "apiVersion": resource.api_version, "kind": "Machine", "metadata": metadata, "spec": spec,
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        self.machines(shape)
            .create(&PostParams::default(), &object)
            .await
            .unwrap()
    }

    pub async fn delete(&self, name: &str) {
        let api = self.machines(Shape::ProviderConfig);
        api.delete(name, &DeleteParams::background()).await.unwrap();
    }

    pub async fn patch(&self, name: &str, patch: Value) {
        let api = self.machines(Shape::ProviderConfig);
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// The machine once it is so.
    pub async fn machine(
        &self,
        shape: Shape,
        name: &str,
        what: &str,
        is_so: impl Fn(&Machine) -> bool,
    ) -> Machine {
        let api = self.machines(shape);
        until(&format!("{name} {what}"), async || {
            let object = api.get_opt(name).await.unwrap()?;
            Some(Machine::of(shape, &object)).filter(&is_so)
        })
        .await
    }

    /// Its first address, once the gate is open.
    pub async fn address(&self, name: &str) -> String {
        let machine = self.open(Shape::ProviderConfig, name).await;
        machine.network.unwrap().unwrap().addresses[0].to_string()
    }

    pub async fn open(&self, shape: Shape, name: &str) -> Machine {
        self.machine(shape, name, "has an open gate", |machine| !machine.is_gated())
            .await
    }

    /// Reason and message of the condition, once it has that reason.
    pub async fn says(&self, name: &str, reason: &str) -> String {
        let machine = self
            .machine(Shape::ProviderConfig, name, reason, |machine| {
                condition(machine).0 == reason
            })
            .await;
        condition(&machine).1
    }

    pub async fn gone(&self, name: &str) {
        let api = self.machines(Shape::ProviderConfig);
        until(&format!("{name} is gone"), async || {
            api.get_opt(name).await.unwrap().is_none().then_some(())
        })
        .await;
    }

    pub async fn events(&self, name: &str) -> BTreeMap<String, String> {
        let events = Api::<Event>::all(self.client.clone())
            .list(&ListParams::default())
            .await
            .unwrap();
        let about = events.items.into_iter().filter(|event| {
            let regarding = event.regarding.clone().unwrap_or_default();
            regarding.name.as_deref() == Some(name)
        });
        about
            .map(|event| (event.reason.unwrap_or_default(), event.note.unwrap_or_default()))
            .collect()
    }

    pub async fn event(&self, name: &str, reason: &str) -> String {
        until(&format!("{name} has an event {reason}"), async || {
            self.events(name).await.remove(reason)
        })
        .await
    }

    /// How many units of the subnet have an owner, in the store itself.
    pub async fn owned(&self, subnet: &str) -> usize {
        let blocks = self.store.load(subnet).await.unwrap();
        blocks.iter().map(|block| block.record.owned().count()).sum()
    }

    pub async fn ready(&self, subnet: &str) {
        until(&format!("{subnet} is ready"), async || {
            let subnet = self.subnets().get_opt(subnet).await.unwrap()?;
            subnet.status?.capacity.map(drop)
        })
        .await;
    }

    /// What must hold at any moment.
    pub async fn check_no_address_twice(&self) {
        let mut seen: BTreeMap<String, String> = BTreeMap::new();
        for shape in Shape::ALL {
            for object in self.machines(shape).list(&ListParams::default()).await.unwrap() {
                let machine = Machine::of(shape, &object);
                for address in machine
                    .network
                    .ok()
                    .flatten()
                    .into_iter()
                    .flat_map(|network| network.addresses)
                {
                    let other = seen.insert(address.ip.to_string(), object.name_any());
                    assert_eq!(other, None, "{address} is also of {}", object.name_any());
                }
            }
        }
    }
}

pub fn condition(machine: &Machine) -> (String, String) {
    let conditions = machine.value.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|condition| condition["type"] == ipam::NETWORK_ALLOCATED);
    let text = |field: &str| {
        found
            .and_then(|found| found[field].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    (text("reason"), text("message"))
}

/// Long enough for everything that is under way to be done.
pub async fn settle() {
    tokio::time::sleep(Duration::from_secs(5)).await;
}
