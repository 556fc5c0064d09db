//! `berth uninstall cluster`: a pod on each node cleans it; then what components left in the API is
//! removed. Every step can be repeated: an interrupted run is simply run again.

use std::fmt::Debug;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_api::names::{NAMESPACE, POD_ADDRESSES_AVAILABLE, POD_IPS, ROOM_ANNOTATION};
use berth_api::{NodeNetworkConfig, Subnet};
use berth_kit::args::CommonArgs;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use tracing::{info, warn};

use super::pod;

const POLL_INTERVAL: Duration = Duration::from_millis(500);
const AGENTS: &str = "app.kubernetes.io/name=berth-agent";
/// The prefix of the Leases of leader elections.
const LEASES: &str = "berth-";
const CONFIG_MAPS: [&str; 2] = ["berth-address-plan", "berth-route-hops"];

/// Remove conf and plugins from all nodes, and what components left in the API
#[derive(Debug, clap::Args)]
pub struct Cluster {
    #[command(flatten)]
    flags: pod::Flags,
}

impl Cluster {
    pub fn run(self, common: &CommonArgs) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.context("starting")?.block_on(async {
            let client = common.cluster.client().await?;
            self.clean_nodes(&client).await?;
            clean_api(&client, self.flags.purge).await
        })
    }

    async fn clean_nodes(&self, client: &Client) -> Result<()> {
        let pods = Api::<Pod>::namespaced(client.clone(), NAMESPACE);
        // A running agent would put everything back.
        until_none(&pods, AGENTS).await?;
        delete_failed_pods(&pods).await?;
        let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await?;
        for node in &nodes.items {
            let pod = pod::of_node(&node.name_any(), &self.flags)?;
            match pods.create(&PostParams::default(), &pod).await {
                // The pod is from an interrupted run.
                Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                made => drop(made?),
            }
        }
        let failed = until_done(client, &pods).await?;
        ensure!(
            failed.is_empty(),
            "some nodes are not clean: {}; see their pods in {NAMESPACE}, and run this again",
            failed.join("; ")
        );
        pods.delete_collection(&DeleteParams::default(), &ListParams::default().labels(pod::LABEL))
            .await?;
        until_none(&pods, pod::LABEL).await
    }
}

async fn until_none(pods: &Api<Pod>, label: &str) -> Result<()> {
    let params = ListParams::default().labels(label);
    loop {
        let left = pods.list(&params).await?.items.len();
        if left == 0 {
            return Ok(());
        }
        info!(left, label, "waiting for pods to go");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Deletes failed pods of an earlier run, so that their nodes are tried again. Nothing runs in
/// them, so no grace period is needed.
async fn delete_failed_pods(pods: &Api<Pod>) -> Result<()> {
    for pod in pods.list(&ListParams::default().labels(pod::LABEL)).await?.items {
        if phase(&pod) == "Failed" {
            let name = pod.name_any();
            info!(
                pod = name,
                why = message(&pod),
                "uninstall pod failed earlier; deleting it to retry its node"
            );
            ignore_not_found(pods.delete(&name, &without_grace_period()).await)?;
        }
    }
    Ok(())
}

fn without_grace_period() -> DeleteParams {
    DeleteParams::default().grace_period(0)
}

/// Waits for the pods, and returns the errors by node. A node whose kubelet is not reachable is
/// left as it is: our files stay there, and nobody calls them.
async fn until_done(client: &Client, pods: &Api<Pod>) -> Result<Vec<String>> {
    let nodes = Api::<Node>::all(client.clone());
    loop {
        let (mut failed, mut waiting) = (Vec::new(), Vec::new());
        for pod in pods.list(&ListParams::default().labels(pod::LABEL)).await?.items {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
            let node = node.unwrap_or_default();
            match phase(&pod) {
                "Succeeded" => {}
                "Failed" => failed.push(format!("{node}: {}", message(&pod))),
                _ if is_unreachable(nodes.get_opt(&node).await?.as_ref()) => {
                    warn!(node, "node is unreachable; leaving Berth's files on it");
                    // No kubelet can end the pod.
                    ignore_not_found(pods.delete(&pod.name_any(), &without_grace_period()).await)?;
                }
                _ => waiting.push(node),
            }
        }
        if waiting.is_empty() {
            return Ok(failed);
        }
        info!(nodes = waiting.join(","), "waiting for uninstall pods to finish");
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn phase(pod: &Pod) -> &str {
    let status = pod.status.as_ref();
    status.and_then(|status| status.phase.as_deref()).unwrap_or_default()
}

fn message(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let containers = status.container_statuses.unwrap_or_default().into_iter();
    let ended = containers.filter_map(|container| container.state?.terminated?.message);
    let messages: Vec<String> = ended.collect();
    let text = if messages.is_empty() {
        status.message.unwrap_or_default()
    } else {
        messages.join(" ")
    };
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Also true if the Node does not exist.
fn is_unreachable(node: Option<&Node>) -> bool {
    let conditions = node.and_then(|node| node.status.as_ref()?.conditions.as_ref());
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition.type_ == "Ready");
    node.is_none() || ready.is_some_and(|condition| condition.status == "Unknown")
}

async fn clean_api(client: &Client, purge: bool) -> Result<()> {
    let params = PatchParams::default();
    let nodes = Api::<Node>::all(client.clone());
    for node in nodes.list(&ListParams::default()).await?.items {
        let name = node.name_any();
        let condition = json!({"status": {
            "conditions": [{"$patch": "delete", "type": POD_ADDRESSES_AVAILABLE}],
            "capacity": {POD_IPS: null}, "allocatable": {POD_IPS: null},
        }});
        let patched = nodes.patch_status(&name, &params, &Patch::Strategic(condition)).await;
        ignore_not_found(patched)?;
        let annotation = json!({"metadata": {"annotations": {ROOM_ANNOTATION: null}}});
        ignore_not_found(nodes.patch(&name, &params, &Patch::Merge(annotation)).await)?;
    }
    let leases = Api::<Lease>::namespaced(client.clone(), NAMESPACE);
    for lease in leases.list(&ListParams::default()).await?.items {
        if lease.name_any().starts_with(LEASES) {
            ignore_not_found(leases.delete(&lease.name_any(), &DeleteParams::default()).await)?;
        }
    }
    if !purge {
        return Ok(());
    }
    let maps = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE);
    for name in CONFIG_MAPS {
        ignore_not_found(maps.delete(name, &DeleteParams::default()).await)?;
    }
    // The controller would remove these finalizers, but it is gone: the objects would stay.
    remove_finalizers(&Api::<NodeNetworkConfig>::namespaced(client.clone(), NAMESPACE)).await?;
    remove_finalizers(&Api::<Subnet>::all(client.clone())).await
}

/// Removes our finalizers from all objects of this kind.
async fn remove_finalizers<K>(api: &Api<K>) -> Result<()>
where
    K: kube::Resource + Clone + DeserializeOwned + Debug,
{
    let listed = ignore_not_found(api.list(&ListParams::default()).await)?;
    for object in listed.map(|list| list.items).unwrap_or_default() {
        let is_ours = |finalizer: &&String| finalizer.starts_with("berth.dev/");
        let finalizers = object.finalizers().iter();
        let others: Vec<&String> = finalizers.filter(|finalizer| !is_ours(finalizer)).collect();
        let patch = Patch::Merge(json!({"metadata": {"finalizers": others}}));
        ignore_not_found(api.patch(&object.name_any(), &PatchParams::default(), &patch).await)?;
    }
    Ok(())
}

fn ignore_not_found<T>(answer: kube::Result<T>) -> Result<Option<T>> {
    match answer {
        Ok(there) => Ok(Some(there)),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(None),
        Err(error) => Err(error.into()),
    }
}
