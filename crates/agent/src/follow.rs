//! The I/O around the agent's decisions: the watches that feed it, and its one write.

mod condition;

pub use condition::condition;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::time::Duration;

use berth_api::names::{NAMESPACE, field_manager};
use berth_api::nnc::HELD_ANNOTATION;
use berth_api::{ClusterSubnetState, NodeNetworkConfig, ObservedNode, ObservedPod};
use berth_kit::backoff::{Backoff, Exponential};
use kube::api::{ListParams, Patch, PatchParams};
use kube::runtime::watcher::Event;
use kube::{Api, Client, Resource, ResourceExt};
use rand::rngs::StdRng;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::agent::Agent;
use crate::cluster::{Request, key_of};
use crate::node::OwnNode;

const BACKOFF: Exponential = Exponential {
    base: Duration::from_millis(100),
    max: Duration::from_secs(30),
};

/// After this time a write without an answer is made again: repeating it does no harm.
const TIMEOUT: Duration = Duration::from_secs(30);
const RESYNC_INTERVAL: Duration = Duration::from_secs(60);

/// A change of the watched objects.
enum Change<K> {
    /// The full list.
    All(Vec<K>),
    Apply(K),
    Delete(K),
}

/// The node's NodeNetworkConfig.
pub async fn configs(client: Client, agent: Agent) {
    let params = ListParams::default().fields(&format!("metadata.name={}", agent.node()));
    let api: Api<NodeNetworkConfig> = Api::namespaced(client, NAMESPACE);
    follow(api, params, |change| match change {
        Change::All(configs) => match configs.first() {
            Some(nnc) => agent.reset_nnc(nnc),
            None => agent.delete_nnc(),
        },
        Change::Apply(nnc) => agent.apply_nnc(&nnc),
        Change::Delete(_) => agent.delete_nnc(),
    })
    .await;
}

/// What is known of the node itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Listed {
    #[default]
    NotYet,
    Missing,
    There(OwnNode),
}

/// The node itself.
pub async fn node(client: Client, name: &str, listed: watch::Sender<Listed>) {
    let params = ListParams::default().fields(&format!("metadata.name={name}"));
    let there = |node: &ObservedNode| Listed::There(OwnNode::read(node));
    follow(Api::<ObservedNode>::all(client), params, |change| {
        let now = match change {
            Change::All(nodes) => nodes.first().map_or(Listed::Missing, there),
            Change::Apply(node) => there(&node),
            Change::Delete(_) => Listed::Missing,
        };
        listed.send_if_modified(|before| {
            let is_new = *before != now;
            *before = now;
            is_new
        });
    })
    .await;
}

/// Forwards every change of the Node to the agent.
pub async fn forward_node(mut listed: watch::Receiver<Listed>, agent: Agent) {
    loop {
        let now = listed.borrow_and_update().clone();
        match now {
            Listed::NotYet => {}
            Listed::Missing => agent.set_node(None),
            Listed::There(node) => agent.set_node(Some(node)),
        }
        if listed.changed().await.is_err() {
            return;
        }
    }
}

/// The pods of the node.
pub async fn pods(client: Client, agent: Agent) {
    let params = ListParams::default().fields(&format!("spec.nodeName={}", agent.node()));
    follow(Api::<ObservedPod>::all(client), params, |change| match change {
        Change::All(pods) => agent.set_pods(&pods),
        Change::Apply(pod) => agent.apply_pod(&pod),
        Change::Delete(pod) => agent.delete_pod(&key_of(&pod)),
    })
    .await;
}

/// Whether subnets are exhausted.
pub async fn states(client: Client, agent: Agent) {
    let api: Api<ClusterSubnetState> = Api::namespaced(client, NAMESPACE);
    follow(api, ListParams::default(), |change| match change {
        Change::All(states) => agent.set_states(&states),
        Change::Apply(state) => agent.apply_state(&state),
        Change::Delete(state) => agent.delete_state(&state.name_any()),
    })
    .await;
}

/// Runs for as long as the process does.
async fn follow<K>(api: Api<K>, selection: ListParams, mut on_change: impl FnMut(Change<K>) + Send)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut listed = Vec::new();
    berth_kit::follow::follow(api, selection, |event| match event {
        Event::Init => listed.clear(),
        Event::InitApply(object) => listed.push(object),
        Event::InitDone => on_change(Change::All(std::mem::take(&mut listed))),
        Event::Apply(object) => on_change(Change::Apply(object)),
        Event::Delete(object) => on_change(Change::Delete(object)),
    })
    .await;
}

/// Brings the spec in line with what the node needs, whenever that changes.
pub async fn write(client: Client, agent: Agent, random: StdRng) {
    let api: Api<NodeNetworkConfig> = Api::namespaced(client, NAMESPACE);
    let mut backoff = Backoff::new(BACKOFF, random);
    loop {
        let Some(request) = agent.next_request() else {
            // The agent decides again from time to time even when nothing happens: ADDs that were
            // refused long ago no longer count, and a disk may have room again.
            let _ = timeout(RESYNC_INTERVAL, agent.wait_for_change()).await;
            continue;
        };
        let applied = timeout(TIMEOUT, apply(&api, agent.node(), &request)).await;
        let Ok(applied) = applied else {
            warn!("no answer to the write of the NodeNetworkConfig; retrying");
            continue;
        };
        match applied {
            Ok(answer) => {
                backoff.succeed();
                agent.record_write(&request, &answer);
            }
            Err(error) if is_gone(&error) => {
                debug!(%error, "the NodeNetworkConfig was deleted or replaced; waiting for a \
                                change");
                let _ = timeout(RESYNC_INTERVAL, agent.wait_for_change()).await;
            }
            Err(error) => {
                warn!(%error, "cannot write the NodeNetworkConfig; retrying");
                tokio::time::sleep(backoff.fail()).await;
            }
        }
    }
}

/// Writes count and names together. The UID is part of it, because an apply to a deleted object
/// would create one without owner.
async fn apply(
    api: &Api<NodeNetworkConfig>,
    node: &str,
    request: &Request,
) -> kube::Result<NodeNetworkConfig> {
    let names: &BTreeSet<String> = &request.not_in_use;
    let mut object = json!({
        "apiVersion": NodeNetworkConfig::api_version(&()),
        "kind": NodeNetworkConfig::kind(&()),
        "metadata": {"name": node, "namespace": NAMESPACE, "uid": request.uid},
        "spec": {"requestedIPCount": request.requested, "ipsNotInUse": names},
    });
    // When it is left out, server-side apply removes the annotation, because it is ours.
    if !request.held.is_empty() {
        object["metadata"]["annotations"] =
            json!({HELD_ANNOTATION: json!(request.held).to_string()});
    }
    let params = PatchParams::apply(field_manager::AGENT).force();
    api.patch(node, &params, &Patch::Apply(object)).await
}

/// The object was deleted, or has another UID: the watch brings the current one.
fn is_gone(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404 || status.code == 409)
}
