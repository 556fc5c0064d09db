//! Creates, adopts and removes configs.

use berth_kit::api_error::{is_conflict, is_not_found};
use std::time::Duration;

use berth_api::{NodeNetworkConfig, NodeNetworkConfigSpec, names};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams, Preconditions};
use kube::{Resource, ResourceExt};
use serde_json::json;
use tracing::info;

use super::Facts;
use super::decide::{Action, decide};
use crate::controllers::{Controller, Failure, Nodes, View};
use crate::nnc;

/// How long a node is there before it is said that no Subnet takes it.
const PATIENCE: Duration = Duration::from_secs(10);

impl Nodes {
    /// The node's config as it is to be, as far as that can be had now. `config` was read just now.
    pub(crate) async fn ensure_config(
        &self,
        name: &str,
        view: &View,
        config: Option<NodeNetworkConfig>,
    ) -> Result<Option<NodeNetworkConfig>, Failure> {
        let facts = config.as_ref().map(nnc::Facts::of);
        let for_cidr = self.context.runs(Controller::NodeIpam) && view.node_cidrs.is_some();
        let wanted = view.pods.is_some() || for_cidr;
        let action = decide(view.node.as_deref(), facts.as_ref(), wanted);
        if let Some(node) = view.node.as_deref().filter(|node| !node.deleting)
            && config.is_none()
        {
            self.say_if_left_out(name, node, view);
        }
        match (action, config, view.node.as_deref()) {
            (Action::Create, _, Some(node)) => self.create_config(name, node).await.map(Some),
            (Action::Adopt, Some(config), Some(node)) => {
                self.adopt_config(&config, name, node).await
            }
            (Action::Remove, Some(config), _) => {
                self.remove_config(&config, name).await?;
                Ok(None)
            }
            (Action::Foreign, Some(config), _) => {
                let note = "it is controlled by something that is no Node, so agents do not start \
                            on it: \
                            remove that owner reference, or delete it, and it becomes this Node's";
                self.context
                    .warn(&config.object_ref(&()), "NotAdopted", "Adopt", note.to_owned());
                Ok(None)
            }
            (_, config, _) => Ok(config),
        }
    }

    /// Once, and not at once: a Subnet that is created together with the nodes takes a moment to
    /// serve.
    fn say_if_left_out(&self, name: &str, node: &Facts, view: &View) {
        // One that has a podCIDR needs no other addresses.
        if view.pods.is_some() || view.node_cidrs.is_some() {
            self.index().take_in(name, true);
            return;
        }
        let left = view.since.map(|since| PATIENCE.saturating_sub(since.elapsed()));
        if let Some(left) = left.filter(|left| !left.is_zero()) {
            self.index().look_at(name);
            self.queue.add_after(name.to_owned(), left);
            return;
        }
        if !self.index().take_in(name, false) {
            return;
        }
        let note = match &view.unready {
            Some(subnet) => format!(
                "Subnet {subnet} would take this node, but hands out nothing: see its conditions. \
                 Until it does, the node has no NodeNetworkConfig"
            ),
            None => "no Subnet with use: pods takes this node, so it has no NodeNetworkConfig: \
                     create one, or label the node so that the \
                     nodeSelector of one matches"
                .to_owned(),
        };
        self.context
            .warn(&reference(name, &node.uid), "NoSubnet", "Allocate", note);
    }

    async fn create_config(&self, name: &str, node: &Facts) -> Result<NodeNetworkConfig, Failure> {
        let config = NodeNetworkConfig {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(names::NAMESPACE.to_owned()),
                owner_references: Some(vec![owner(name, node)]),
                // With the first write: there is no moment at which it could go and leave addresses
                // behind.
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
        match self.context.configs().create(&params, &config).await {
            // Somebody was faster than the watch, perhaps another controller: the watch will tell
            // what it is.
            Err(error) if is_conflict(&error) => Err(contended(name)),
            created => Ok(created?),
        }
    }

    /// Adds what is missing to exactly the state that was read. `None` when that is not there any
    /// more.
    async fn adopt_config(
        &self,
        config: &NodeNetworkConfig,
        name: &str,
        node: &Facts,
    ) -> Result<Option<NodeNetworkConfig>, Failure> {
        let mut owners: Vec<OwnerReference> = config.owner_references().to_vec();
        let mut finalizers: Vec<String> = config.finalizers().to_vec();
        if !owners.iter().any(|owner| owner.controller == Some(true)) {
            // The Node may be there as an owner that is not the controller.
            owners.retain(|owner| owner.uid != node.uid);
            owners.push(owner(name, node));
        }
        if !finalizers.iter().any(|finalizer| finalizer == names::FINALIZER) {
            finalizers.push(names::FINALIZER.to_owned());
        }
        let patch = json!({"metadata": {
            "resourceVersion": config.metadata.resource_version,
            "ownerReferences": owners,
            "finalizers": finalizers,
        }});
        let params = PatchParams {
            field_manager: Some(names::field_manager::NODE.to_owned()),
            ..PatchParams::default()
        };
        match self.context.configs().patch(name, &params, &Patch::Merge(patch)).await {
            Err(error) if is_conflict(&error) => Err(contended(name)),
            Err(error) if is_not_found(&error) => Ok(None),
            adopted => Ok(Some(adopted?)),
        }
    }

    /// Its addresses go back while its finalizer holds it.
    async fn remove_config(&self, config: &NodeNetworkConfig, name: &str) -> Result<(), Failure> {
        let nnc::Owner::Node { uid } = nnc::Owner::of(config) else {
            return Ok(());
        };
        // Asked afresh: the watch of Nodes may be behind that of configs, and this one's Node just
        // not be known yet.
        if self.is_there(name, &uid).await? {
            return Ok(());
        }
        info!(node = name, uid, "the node is gone, its config goes too");
        let this_one = Preconditions {
            uid: config.uid(),
            resource_version: config.resource_version(),
        };
        let params = DeleteParams::background().preconditions(this_one);
        match self.context.configs().delete(name, &params).await {
            Err(error) if is_conflict(&error) => Err(contended(name)),
            Err(error) if is_not_found(&error) => Ok(()),
            deleted => Ok(deleted.map(drop)?),
        }
    }

    /// Whether the API server has the node of that UID at this moment.
    pub(crate) async fn is_there(&self, name: &str, uid: &str) -> Result<bool, Failure> {
        let node = self.context.nodes().get_opt(name).await?;
        Ok(node.and_then(|node| node.metadata.uid).as_deref() == Some(uid))
    }
}

fn owner(name: &str, node: &Facts) -> OwnerReference {
    OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name.to_owned(),
        uid: node.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// For events about a node.
pub(crate) fn reference(name: &str, uid: &str) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(name.to_owned()),
        uid: Some(uid.to_owned()),
        ..ObjectReference::default()
    }
}

fn contended(name: &str) -> Failure {
    let object = format!("NodeNetworkConfig {name}");
    Failure::Contended { object }
}
