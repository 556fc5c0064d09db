//! A cluster, a backend that outlives controllers, and the words that scenarios are told in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_addr::Prefix;
use berth_kit::events::EventMetrics;
use berth_kit::health::Readiness;
use berth_kit::queue::QueueMetrics;
use berth_routes::controller::{
    self, DEFAULT_MIN_RESYNC_PERIOD, DEFAULT_RECONCILIATION_PERIOD, Options, Publish, RouteMetrics,
};
use berth_routes::core::{Hop, Mark, Route};
pub use berth_testkit::until;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::faulty::Faulty;

pub struct Scene {
    pub client: Client,
    pub backend: Faulty,
}

/// A controller, as if it were a process.
pub struct Running {
    metrics: Registry,
    pub readiness: Readiness,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }

    /// Wherever it is.
    pub fn kill(self) {
        self.task.abort();
    }

    /// One that counts.
    pub fn metric(&self, name: &str) -> u64 {
        let mut text = String::new();
        encode(&mut text, &self.metrics).unwrap();
        let mut lines = text.lines().filter_map(|line| line.rsplit_once(' '));
        let found = lines.find(|(found, _)| *found == name);
        found.map_or(0, |(_, value)| value.parse().unwrap())
    }
}

pub fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}

pub fn hop(text: &str) -> Hop {
    Hop::Address(text.parse().unwrap())
}

pub fn route(destination: &str, by: &str, mark: Mark) -> Route {
    Route {
        destination: prefix(destination),
        hop: hop(by),
        mark,
        usable: true,
    }
}

impl Scene {
    pub async fn new(client: Client) -> Self {
        let api: Api<CustomResourceDefinition> = Api::all(client.clone());
        let params = PatchParams::apply("scene").force();
        for crd in berth_api::crds::all() {
            api.patch(&crd.name_any(), &params, &Patch::Apply(&crd))
                .await
                .unwrap();
        }
        Self {
            client,
            backend: Faulty::default(),
        }
    }

    pub fn with_backend(self, backend: Faulty) -> Self {
        Self { backend, ..self }
    }

    pub fn options(&self) -> Options {
        Options {
            client: self.client.clone(),
            backend: Arc::new(self.backend.clone()),
            cluster_cidrs: Some(vec![prefix("10.120.0.0/13"), prefix("fd12::/16")]),
            watch_based: true,
            reconciliation_period: DEFAULT_RECONCILIATION_PERIOD,
            min_resync_period: DEFAULT_MIN_RESYNC_PERIOD,
            publish: Publish::All,
            metrics: RouteMetrics::unregistered(),
            instance: None,
            seed: Some(7),
            ready: None,
        }
    }

    pub fn start(&self) -> Running {
        self.start_with(self.options())
    }

    pub fn start_with(&self, mut options: Options) -> Running {
        let mut metrics = Registry::default();
        let queues = QueueMetrics::register(&mut metrics);
        let events = EventMetrics::register(&mut metrics);
        options.metrics = RouteMetrics::register(&mut metrics, queues, events);
        let readiness = Readiness::default();
        options.ready = Some(Arc::new(readiness.check("routes")));
        let stop = CancellationToken::new();
        let task = tokio::spawn(controller::run(options, stop.clone()));
        Running {
            metrics,
            readiness,
            stop,
            task,
        }
    }

    pub fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    /// With its podCIDR at once.
    pub async fn node(&self, name: &str, cidrs: &[&str], address: &str) {
        let node = json!({
            "metadata": {"name": name},
            "spec": {"podCIDRs": cidrs, "podCIDR": cidrs.first()},
        });
        let node = serde_json::from_value(node).unwrap();
        self.nodes()
            .create(&PostParams::default(), &node)
            .await
            .unwrap();
        self.address(name, address).await;
    }

    pub async fn address(&self, name: &str, address: &str) {
        self.status(
            name,
            json!({"addresses": [{"type": "InternalIP", "address": address}]}),
        )
        .await;
    }

    pub async fn status(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.nodes()
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub async fn patch(&self, name: &str, patch: Value) {
        let patch = Patch::Merge(patch);
        self.nodes()
            .patch(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub async fn delete(&self, name: &str) {
        self.nodes()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// By destination, where the backend's routes lead.
    pub fn routes(&self) -> BTreeMap<String, String> {
        let routes = self.backend.memory.routes();
        let pairs = routes
            .iter()
            .map(|one| (one.destination.to_string(), one.hop.to_string()));
        pairs.collect()
    }

    pub async fn routed(&self, destination: &str, by: &str) {
        until(&format!("{destination} by {by}"), async || {
            (self.routes().get(destination).map(String::as_str) == Some(by)).then_some(())
        })
        .await;
    }

    /// A node, once it is routed.
    pub async fn routed_node(&self, name: &str, cidr: &str, address: &str) {
        self.node(name, &[cidr], address).await;
        self.routed(cidr, address).await;
    }

    pub async fn unrouted(&self, destination: &str) {
        until(&format!("no route to {destination}"), async || {
            (!self.routes().contains_key(destination)).then_some(())
        })
        .await;
    }

    /// Status and reason of `NetworkUnavailable`.
    pub async fn condition(&self, name: &str) -> Option<(String, String)> {
        let node = self.nodes().get(name).await.unwrap();
        let conditions = node
            .status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        let found = conditions
            .into_iter()
            .find(|one| one.type_ == "NetworkUnavailable");
        found.map(|one| (one.status, one.reason.unwrap_or_default()))
    }

    pub async fn condition_is(&self, name: &str, status: &str, reason: &str) {
        until(&format!("{name} is {status}, {reason}"), async || {
            let found = self.condition(name).await?;
            (found == (status.to_owned(), reason.to_owned())).then_some(())
        })
        .await;
    }

    /// The notes of events about a Node.
    pub async fn events(&self, name: &str, reason: &str) -> Vec<String> {
        let all = Api::<Event>::all(self.client.clone());
        let all = all
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .into_iter();
        let about = all.filter(|event| {
            let regarding = event.regarding.clone().unwrap_or_default();
            regarding.name.as_deref() == Some(name) && event.reason.as_deref() == Some(reason)
        });
        about.filter_map(|event| event.note).collect()
    }

    pub async fn event(&self, name: &str, reason: &str, part: &str) -> String {
        until(&format!("{name}: {reason}: {part}"), async || {
            let notes = self.events(name, reason).await;
            notes.into_iter().find(|note| note.contains(part))
        })
        .await
    }
}

pub fn took_less_than(bound: Duration, start: Instant) {
    assert!(start.elapsed() < bound, "{:?}", start.elapsed());
}

/// Long enough for everything that is under way to be done, full reconciles included.
pub async fn settle() {
    tokio::time::sleep(Duration::from_secs(60)).await;
}
