//! The shell: watches Clusters, and applies what they need.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_addr::Prefix;
use berth_kit::api_error::is_not_found;
use berth_kit::backoff::Exponential;
use berth_kit::events::{Event, Recorder};
use berth_kit::queue::{Queue, Work};
use berth_kit::watch::{Change, Key, changes};
use futures::StreamExt;
use futures::future::BoxFuture;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::api::ListParams;
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, TypeMeta};
use kube::runtime::events::{EventType, Reporter};
use kube::{Api, Client, Config, Resource, ResourceExt};
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::StdRng;
use serde_json::{Value, json};
use tracing::{debug, info, warn};

use super::{KUBECONFIG_KEY, KUBECONFIG_SECRET, NETWORKS, Options, appended, networks, resource};
use super::{seed_manifests, user_manifests};
use crate::webhook::Webhook;

const FIELD_MANAGER: &str = "berth-cluster";
const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(100),
    max: Duration::from_secs(60),
};
/// How often user clusters are checked: what somebody deletes there comes back.
const INTERVAL: Duration = Duration::from_secs(5 * 60);
const CONCURRENCY: usize = 8;

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("API server: {0}")]
    Api(#[source] Box<kube::Error>),
    #[error("Secret {namespace}/{KUBECONFIG_SECRET}: {why}")]
    Kubeconfig { namespace: String, why: String },
    #[error("{0}")]
    Manifest(String),
    #[error(
        "the user cluster serves no MutatingAdmissionPolicy, as Kubernetes before 1.36: start \
         berth controller with --webhook-listen and --webhook-url, so that its Machines are gated"
    )]
    NoGate,
}

impl From<kube::Error> for Failure {
    fn from(error: kube::Error) -> Self {
        Self::Api(Box::new(error))
    }
}

#[derive(Clone)]
struct Context {
    client: Client,
    image: Arc<str>,
    webhook: Option<Webhook>,
    events: Recorder,
    clusters: Arc<Mutex<BTreeMap<String, Arc<DynamicObject>>>>,
    queue: Queue<String>,
}

/// Runs until `stop`.
pub fn run(options: Options) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let reporter = Reporter {
            controller: "berth.dev/cluster".to_owned(),
            instance: options.instance.clone(),
        };
        let random = StdRng::from_rng(&mut rand::rng());
        let (events, writer) =
            Recorder::new(options.client.clone(), reporter, &options.events, random);
        let context = Context {
            client: options.client,
            image: options.image.into(),
            webhook: options.webhook,
            events,
            clusters: Arc::default(),
            queue: Queue::new("clusters", BACKOFF, &options.queues),
        };
        let watching = futures::future::join(context.watch(), context.follow_authorities());
        let all =
            futures::future::join3(watching, context.work(), writer.run(options.stop.clone()));
        options.stop.run_until_cancelled(all).await;
    })
}

impl Context {
    async fn watch(&self) {
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource());
        changes(api, ListParams::default(), |change| match change {
            Change::Apply(cluster) => {
                let name = cluster.name_any();
                self.clusters.lock().insert(name.clone(), cluster);
                self.queue.add(name);
            }
            // Its objects are owned by it, and are garbage-collected with it.
            Change::Delete(Key { name, .. }) => drop(self.clusters.lock().remove(&name)),
            Change::Restarted | Change::Synced => {}
        })
        .await;
    }

    /// User clusters get a new authority at once.
    async fn follow_authorities(&self) {
        let Some(mut authorities) =
            self.webhook.as_ref().map(|webhook| webhook.authorities.clone())
        else {
            return;
        };
        while authorities.changed().await.is_ok() {
            let names: Vec<String> = self.clusters.lock().keys().cloned().collect();
            names.into_iter().for_each(|name| self.queue.add(name));
        }
    }

    async fn work(&self) {
        let works =
            futures::stream::unfold((), async |()| self.queue.take().await.map(|work| (work, ())));
        works.for_each_concurrent(CONCURRENCY, |work| self.handle(work)).await;
    }

    async fn handle(&self, work: Work<String>) {
        match self.reconcile(&work).await {
            Ok(has_networks) => {
                let name = work.clone();
                work.succeeded();
                if has_networks {
                    self.queue.add_after(name, INTERVAL);
                }
            }
            Err(error) => {
                let cluster = work.clone();
                let retry = work.failed();
                warn!(cluster, %error, ?retry, "cannot reconcile the Cluster; retrying");
            }
        }
    }

    async fn reconcile(&self, name: &str) -> Result<bool, Failure> {
        let Some(cluster) = self.clusters.lock().get(name).cloned() else {
            return Ok(false);
        };
        if cluster.metadata.deletion_timestamp.is_some() {
            return Ok(false);
        }
        let namespace = namespace(&cluster);
        let before = self.applied(&namespace).await?;
        let checked = networks(&cluster.data)
            .and_then(|networks| appended(&before, &networks).map(|()| networks));
        let networks = match checked {
            Ok(networks) => networks,
            // What is applied already stays as it is.
            Err(error) => {
                self.warn(&cluster, "InvalidMachineNetwork", error.to_string());
                return Ok(false);
            }
        };
        if networks.is_empty() {
            return Ok(false);
        }
        // The user cluster first, as the Deployment depends on it.
        let user = self.user_cluster(&namespace).await?;
        if let Err(error) = self.prepare(&user).await {
            if matches!(error, Failure::NoGate) {
                self.warn(&cluster, "NoGate", error.to_string());
            }
            return Err(error);
        }
        let owner = json!({
            "apiVersion": resource().api_version, "kind": "Cluster", "name": name,
            "uid": cluster.metadata.uid, "controller": true, "blockOwnerDeletion": false,
        });
        for manifest in seed_manifests(&namespace, &owner, &networks, &self.image) {
            apply(&self.client, &manifest).await?;
        }
        debug!(
            cluster = name,
            networks = networks.len(),
            "applied the manifests of machine IPAM"
        );
        if before.len() != networks.len() {
            info!(
                cluster = name,
                networks = networks.len(),
                "applied machine IPAM with changed networks"
            );
        }
        Ok(true)
    }

    /// What machine IPAM needs in the user cluster. The gate is a policy, or the webhook where the
    /// API server has no policies: without one of the two Machines would not wait.
    async fn prepare(&self, user: &Client) -> Result<(), Failure> {
        for manifest in user_manifests().map_err(Failure::Manifest)? {
            match apply(user, &manifest).await {
                Err(Failure::Api(error)) if is_not_found(&error) && is_policy(&manifest) => {
                    let webhook = self.webhook.as_ref().ok_or(Failure::NoGate)?;
                    return apply(user, &webhook.configuration()).await;
                }
                applied => applied?,
            }
        }
        Ok(())
    }

    fn warn(&self, cluster: &DynamicObject, reason: &'static str, note: String) {
        let event = Event {
            type_: EventType::Warning,
            reason,
            action: "Apply",
            note,
            related: None,
        };
        self.events.record(&cluster.object_ref(&resource()), event);
    }

    /// The CIDRs that machine IPAM was last given.
    async fn applied(&self, namespace: &str) -> Result<Vec<Prefix>, Failure> {
        let api: Api<Deployment> = Api::namespaced(self.client.clone(), namespace);
        let Some(deployment) = api.get_metadata_opt("machine-ipam").await? else {
            return Ok(Vec::new());
        };
        let cidrs = deployment
            .annotations()
            .get(NETWORKS)
            .map(String::as_str)
            .unwrap_or_default();
        Ok(cidrs.split(',').filter_map(|cidr| cidr.parse().ok()).collect())
    }

    async fn user_cluster(&self, namespace: &str) -> Result<Client, Failure> {
        let wrong = |why: String| Failure::Kubeconfig {
            namespace: namespace.to_owned(),
            why,
        };
        let api: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        let secret = api.get_opt(KUBECONFIG_SECRET).await?;
        let secret = secret.ok_or_else(|| wrong("is not there yet".to_owned()))?;
        let data = secret.data.unwrap_or_default();
        let data = data
            .get(KUBECONFIG_KEY)
            .ok_or_else(|| wrong(format!("has no {KUBECONFIG_KEY}")))?;
        let text = String::from_utf8_lossy(&data.0).into_owned();
        let kubeconfig = Kubeconfig::from_yaml(&text).map_err(|error| wrong(error.to_string()))?;
        let config =
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        let config = config.map_err(|error| wrong(error.to_string()))?;
        Ok(Client::try_from(config)?)
    }
}

/// The namespace from Kubermatic's status, or by Kubermatic's rule.
fn namespace(cluster: &DynamicObject) -> String {
    let told = cluster.data.pointer("/status/namespaceName").and_then(Value::as_str);
    let named = told.filter(|name| !name.is_empty()).map(str::to_owned);
    named.unwrap_or_else(|| format!("cluster-{}", cluster.name_any()))
}

/// Server-side apply of any object.
async fn apply(client: &Client, manifest: &Value) -> Result<(), Failure> {
    let object: DynamicObject = serde_json::from_value(manifest.clone())
        .map_err(|error| Failure::Manifest(error.to_string()))?;
    let types = object.types.clone().unwrap_or_else(TypeMeta::list::<Deployment>);
    let gvk =
        GroupVersionKind::try_from(&types).map_err(|error| Failure::Manifest(error.to_string()))?;
    let api_resource = ApiResource::from_gvk_with_plural(&gvk, &plural(&gvk.kind));
    let api: Api<DynamicObject> = match object.namespace() {
        Some(namespace) => Api::namespaced_with(client.clone(), &namespace, &api_resource),
        None => Api::all_with(client.clone(), &api_resource),
    };
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let applied = api.patch(&object.name_any(), &params, &Patch::Apply(&object)).await;
    applied.map(drop).map_err(Into::into)
}

fn is_policy(manifest: &Value) -> bool {
    let kind = manifest["kind"].as_str().unwrap_or_default();
    kind.starts_with("MutatingAdmissionPolicy")
}

fn plural(kind: &str) -> String {
    let kind = kind.to_lowercase();
    match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    }
}
