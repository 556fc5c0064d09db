//! Runs the [`super::plan`] of a Deployment.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use berth_kit::events::Event;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::events::EventType;
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use super::super::owner::controller;
use super::super::template::{self, REVISION};
use super::super::{Workloads, merge};
use super::{Scale, plan, split};
use berth_kit::watch::Key;

impl Workloads {
    /// Returns when to sync again if nothing changes.
    pub(in super::super) async fn sync_deployment(
        &mut self,
        key: &Key,
    ) -> kube::Result<Option<Duration>> {
        let Some(deployment) = self.index.deployment(key) else {
            return Ok(None);
        };
        let (sets, orphans) = self.index.sets_of(&deployment);
        let api = self.api::<ReplicaSet>(&key.namespace);
        if deployment.metadata.deletion_timestamp.is_none() {
            for orphan in orphans {
                let patch = json!({"metadata": {"ownerReferences": [template::owner(deployment.as_ref())]}});
                let adopted = merge(&api, &orphan.name, patch).await?;
                self.apply_written(adopted);
            }
        }
        let (new, old) = split(&deployment, sets);
        let old_pods_left = self.index.any_pod_left(&old);
        let plan = plan(&deployment, new.as_ref(), &old, old_pods_left, &self.clock.time());

        if let Some(set) = plan.create {
            self.create(&deployment, &api, *set).await?;
        }
        for scale in plan.scale {
            self.scale(&deployment, &api, scale).await?;
        }
        if let Some(revision) = plan.revision {
            self.set_revision(key, &api, new.as_deref(), revision).await?;
        }
        for set in plan.prune {
            api.delete(&set.name, &DeleteParams::background()).await?;
        }
        if let Some(status) = plan.status {
            self.report(key, *status).await?;
        }
        Ok(plan.recheck)
    }

    async fn create(
        &mut self,
        deployment: &Deployment,
        api: &Api<ReplicaSet>,
        set: ReplicaSet,
    ) -> kube::Result<()> {
        let name = set.name_any();
        let refused = match api.create(&PostParams::default(), &set).await {
            Ok(created) => {
                let replicas = created.spec.as_ref().and_then(|s| s.replicas).unwrap_or(0);
                self.emit_scaled(deployment, &name, 0, replicas);
                self.apply_written(created);
                return Ok(());
            }
            Err(kube::Error::Api(status)) if status.code == 409 => status,
            Err(error) => return Err(error),
        };
        let there = api.get_opt(&name).await?;
        let ours =
            |set: &ReplicaSet| controller(&set.metadata) == deployment.metadata.uid.as_deref();
        if let Some(set) = there.filter(ours) {
            self.apply_written(set);
            return Ok(());
        }
        // Two templates have the same hash, or another object has the name. The collision is
        // counted, so that the next try has another name.
        let collisions = deployment.status.as_ref().and_then(|s| s.collision_count);
        let patch =
            json!({"status": {"collisionCount": collisions.unwrap_or(0).saturating_add(1)}});
        let deployments = self.api::<Deployment>(&deployment.namespace().unwrap_or_default());
        let counted = deployments
            .patch_status(&deployment.name_any(), &PatchParams::default(), &Patch::Merge(patch))
            .await?;
        let tasks = self.index.apply_deployment(Arc::new(counted));
        self.enqueue(tasks);
        Err(kube::Error::Api(refused))
    }

    async fn scale(
        &mut self,
        deployment: &Deployment,
        api: &Api<ReplicaSet>,
        scale: Scale,
    ) -> kube::Result<()> {
        let name = scale.set.name_any();
        let sizes = BTreeMap::from(template::sizes(deployment));
        let metadata =
            json!({"resourceVersion": scale.set.resource_version(), "annotations": sizes});
        let patch = json!({"metadata": metadata, "spec": {"replicas": scale.to}});
        let scaled = merge(api, &name, patch).await?;
        self.apply_written(scaled);
        self.emit_scaled(deployment, &name, scale.from, scale.to);
        Ok(())
    }

    async fn set_revision(
        &mut self,
        key: &Key,
        api: &Api<ReplicaSet>,
        new: Option<&ReplicaSet>,
        revision: i64,
    ) -> kube::Result<()> {
        let patch = json!({"metadata": {"annotations": {REVISION: revision.to_string()}}});
        if let Some(set) = new {
            let revised = merge(api, &set.name_any(), patch.clone()).await?;
            self.apply_written(revised);
        }
        let deployments = self.api::<Deployment>(&key.namespace);
        // Through `/status`: a change of annotations on the main resource would raise the
        // generation.
        let params = PatchParams::default();
        let revised = deployments
            .patch_status(&key.name, &params, &Patch::Merge(patch))
            .await?;
        self.index.apply_deployment(Arc::new(revised));
        Ok(())
    }

    async fn report(&mut self, key: &Key, status: DeploymentStatus) -> kube::Result<()> {
        // The current state: this sync's own writes have made it newer than the plan's.
        let Some(mut deployment) = self.index.deployment(key).map(Arc::unwrap_or_clone) else {
            return Ok(());
        };
        deployment.status = Some(status);
        let api = self.api::<Deployment>(&key.namespace);
        let params = PostParams::default();
        let written = api.replace_status(&key.name, &params, &deployment).await?;
        self.index.apply_deployment(Arc::new(written));
        Ok(())
    }

    /// Applies the ReplicaSet in the answer of a write to the index.
    pub(in super::super) fn apply_written(&mut self, set: ReplicaSet) {
        let tasks = self.index.apply_replica_set(Arc::new(set));
        self.enqueue(tasks);
    }

    fn emit_scaled(&self, deployment: &Deployment, set: &str, from: i32, to: i32) {
        let direction = if to > from { "up" } else { "down" };
        let event = Event {
            type_: EventType::Normal,
            reason: "ScalingReplicaSet",
            action: "Scale",
            note: format!("Scaled {direction} replica set {set} from {from} to {to}"),
            related: None,
        };
        self.deployment_events.record(&deployment.object_ref(&()), event);
    }
}
