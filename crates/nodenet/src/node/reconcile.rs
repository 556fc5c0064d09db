//! Creates, adopts and removes NodeNetworkConfigs.

use std::time::Duration;

use berth_api::{NodeNetworkConfig, NodeNetworkConfigSpec, names};
use berth_kit::api_error::{is_conflict, is_not_found};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Resource, ResourceExt};
use serde_json::json;
use tracing::info;

use super::decide::{Action, decide};
use crate::context::Context;
use crate::controller::Controller;
use crate::error::ReconcileError;
use crate::facts::{NncFacts, NncOwner, NodeFacts, reference};
use crate::index::View;

/// How long a node exists before an event reports that no Subnet selects it.
const SELECTED_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an nnc that somebody deleted stays away. `kubectl delete` looks it up by name before it
/// waits for it to go: it would wait for ever for one that was created again in between.
const RECREATE_DELAY: Duration = Duration::from_secs(1);

/// Brings the node's nnc into its proper state, as far as possible now. `nnc` was read just now.
pub async fn ensure_nnc(
    context: &Context,
    name: &str,
    view: &View,
    nnc: Option<NodeNetworkConfig>,
) -> Result<Option<NodeNetworkConfig>, ReconcileError> {
    let facts = nnc.as_ref().map(NncFacts::of);
    let for_cidr = context.runs(Controller::NodeIpam) && view.node_cidrs.is_some();
    let selected = view.pods.is_some() || for_cidr;
    let action = decide(view.node.as_deref(), facts.as_ref(), selected);
    if let Some(node) = view.node.as_deref().filter(|node| !node.deleting)
        && nnc.is_none()
    {
        warn_if_left_out(context, name, node, view);
    }
    match (action, nnc, view.node.as_deref()) {
        // It was deleted after the watch reported it. The watch will report that next, and so when.
        (Action::Create, ..) if view.has_nnc => Ok(None),
        (Action::Create, ..) if let Some(left) = delay_left(view) => {
            context.index().mark_pending(name);
            context.node_queue.add_after(name.to_owned(), left);
            Ok(None)
        }
        (Action::Create, _, Some(node)) => create(context, name, node).await.map(Some),
        (Action::Adopt, Some(nnc), Some(node)) => adopt(context, &nnc, name, node).await,
        (Action::Remove, Some(nnc), _) => {
            remove(context, &nnc, name).await?;
            Ok(None)
        }
        (Action::Foreign, Some(nnc), _) => {
            let note = "it is controlled by something that is not a Node, so agents do not start \
                        on it: remove that owner reference, or delete it, and it becomes this \
                        Node's";
            context
                .background
                .warn(&nnc.object_ref(&()), "NotAdopted", "Adopt", note.to_owned());
            Ok(None)
        }
        (_, nnc, _) => Ok(nnc),
    }
}

fn delay_left(view: &View) -> Option<Duration> {
    let left = RECREATE_DELAY.saturating_sub(view.nnc_deleted?.elapsed());
    (!left.is_zero()).then_some(left)
}

/// Warns once, and not at once: a Subnet that is created together with the nodes takes a moment to
/// serve.
fn warn_if_left_out(context: &Context, name: &str, node: &NodeFacts, view: &View) {
    // A node that has a podCIDR needs no other addresses.
    if view.pods.is_some() || view.node_cidrs.is_some() {
        context.index().set_selected(name, true);
        return;
    }
    let left = view.since.map(|since| SELECTED_TIMEOUT.saturating_sub(since.elapsed()));
    if let Some(left) = left.filter(|left| !left.is_zero()) {
        context.index().mark_pending(name);
        context.node_queue.add_after(name.to_owned(), left);
        return;
    }
    if !context.index().set_selected(name, false) {
        return;
    }
    let note = match &view.unready {
        Some(subnet) => format!(
            "Subnet {subnet} selects this node, but hands out nothing: see its conditions. Until \
             it does, the node has no NodeNetworkConfig"
        ),
        None => {
            "no Subnet with use: pods selects this node, so it has no NodeNetworkConfig: create \
                 one, or label the node so that the nodeSelector of one matches"
                .to_owned()
        }
    };
    context
        .background
        .warn(&reference(name, &node.uid), "NoSubnet", "Allocate", note);
}

async fn create(
    context: &Context,
    name: &str,
    node: &NodeFacts,
) -> Result<NodeNetworkConfig, ReconcileError> {
    let nnc = NodeNetworkConfig {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(names::NAMESPACE.to_owned()),
            owner_references: Some(vec![owner(name, node)]),
            // The first write sets it, so the nnc can never go and leave addresses behind.
            finalizers: Some(vec![names::FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: NodeNetworkConfigSpec::default(),
        status: None,
    };
    let params = PostParams {
        field_manager: Some(names::field_manager::NODE.to_owned()),
        ..PostParams::default()
    };
    match context.nncs().create(&params, &nnc).await {
        // Somebody was faster than the watch, perhaps another controller: the watch will report the
        // nnc.
        Err(error) if is_conflict(&error) => Err(contended(name)),
        created => {
            let created = created?;
            context.index().created_nnc(name, NncFacts::of(&created));
            Ok(created)
        }
    }
}

/// Adds what is missing to exactly the state that was read. `None` if the object has changed since.
async fn adopt(
    context: &Context,
    nnc: &NodeNetworkConfig,
    name: &str,
    node: &NodeFacts,
) -> Result<Option<NodeNetworkConfig>, ReconcileError> {
    let mut owners: Vec<OwnerReference> = nnc.owner_references().to_vec();
    let mut finalizers: Vec<String> = nnc.finalizers().to_vec();
    if !owners.iter().any(|owner| owner.controller == Some(true)) {
        // The Node may be listed as an owner that is not the controller.
        owners.retain(|owner| owner.uid != node.uid);
        owners.push(owner(name, node));
    }
    if !finalizers.iter().any(|finalizer| finalizer == names::FINALIZER) {
        finalizers.push(names::FINALIZER.to_owned());
    }
    let patch = json!({"metadata": {
        "resourceVersion": nnc.metadata.resource_version,
        "ownerReferences": owners,
        "finalizers": finalizers,
    }});
    let params = PatchParams {
        field_manager: Some(names::field_manager::NODE.to_owned()),
        ..PatchParams::default()
    };
    match context.nncs().patch(name, &params, &Patch::Merge(patch)).await {
        Err(error) if is_conflict(&error) => Err(contended(name)),
        Err(error) if is_not_found(&error) => Ok(None),
        adopted => Ok(Some(adopted?)),
    }
}

/// Its addresses go back while its finalizer holds it.
async fn remove(
    context: &Context,
    nnc: &NodeNetworkConfig,
    name: &str,
) -> Result<(), ReconcileError> {
    let NncOwner::Node { uid } = NncOwner::of(nnc) else {
        return Ok(());
    };
    // Asks the API server: the watch of Nodes may be behind that of nncs, so that this nnc's Node
    // is not known yet.
    if is_there(context, name, &uid).await? {
        return Ok(());
    }
    info!(node = name, uid, "the Node is gone; deleting its NodeNetworkConfig");
    let this_one = Preconditions {
        uid: nnc.uid(),
        resource_version: nnc.resource_version(),
    };
    let params = DeleteParams::background().preconditions(this_one);
    match context.nncs().delete(name, &params).await {
        Err(error) if is_conflict(&error) => Err(contended(name)),
        Err(error) if is_not_found(&error) => Ok(()),
        deleted => Ok(deleted.map(drop)?),
    }
}

/// Whether the API server has the node of that UID at this moment.
async fn is_there(context: &Context, name: &str, uid: &str) -> Result<bool, ReconcileError> {
    let node = context.nodes().get_opt(name).await?;
    Ok(node.and_then(|node| node.metadata.uid).as_deref() == Some(uid))
}

fn owner(name: &str, node: &NodeFacts) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name.to_owned(),
        uid: node.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

fn contended(name: &str) -> ReconcileError {
    let object = format!("NodeNetworkConfig {name}");
    ReconcileError::Contended { object }
}
