//! Runs the [`super::plan`] of a ReplicaSet.

use std::sync::Arc;
use std::time::Duration;

use berth_kit::events::Event;
use futures::future::join_all;
use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::runtime::events::EventType;
use kube::{Api, Resource, ResourceExt};
use serde_json::json;

use super::super::index::Task;
use super::super::template;
use super::super::{Workloads, merge};
use super::plan;
use crate::writes::CONCURRENCY;
use berth_kit::watch::Key;

/// How many pods of one set are created or deleted before others have their turn.
const BURST: usize = 500;

impl Workloads {
    /// Returns when to sync again if nothing changes.
    pub(in super::super) async fn sync_replica_set(
        &mut self,
        key: &Key,
    ) -> kube::Result<Option<Duration>> {
        let Some(set) = self.index.replica_set(key) else {
            return Ok(None);
        };
        let (owned, orphans) = self.index.members_of(&set);
        let failure = self.failures.get(key).map(String::as_str);
        let mut plan = plan(&set, &owned, &orphans, failure, &self.clock.time());
        let pods = self.api::<Pod>(&key.namespace);

        for pod in &plan.adopt {
            let patch = json!({"metadata": {"ownerReferences": [template::owner(set.as_ref())]}});
            let adopted = merge(&pods, &pod.name, patch).await?;
            self.index.apply_pod(&adopted);
        }
        for pod in &plan.release {
            let patch =
                json!({"metadata": {"ownerReferences": [{"$patch": "delete", "uid": set.uid()}]}});
            let params = PatchParams::default();
            let released = pods.patch(&pod.name, &params, &Patch::Strategic(patch)).await?;
            self.index.apply_pod(&released);
        }
        // The status first, so that a set that can't create its pods still reports its counts.
        if let Some(status) = plan.status.take() {
            self.report_set(key, status).await?;
        }
        self.create_pods(&set, &pods, plan.create.min(BURST)).await?;
        plan.delete.truncate(BURST);
        self.delete_pods(&set, &pods, &plan.delete).await?;
        if plan.create > 0 || !plan.delete.is_empty() {
            // The rest of the work and the status need another sync. The watch causes none, since
            // the index has these changes already.
            self.enqueue(vec![Task::ReplicaSet(key.clone())]);
        }
        Ok(plan.recheck)
    }

    async fn report_set(&mut self, key: &Key, status: ReplicaSetStatus) -> kube::Result<()> {
        let Some(mut set) = self.index.replica_set(key).map(Arc::unwrap_or_clone) else {
            return Ok(());
        };
        set.status = Some(status);
        let api = self.api::<ReplicaSet>(&key.namespace);
        let params = PostParams::default();
        let written = api.replace_status(&key.name, &params, &set).await?;
        self.apply_written(written);
        Ok(())
    }

    async fn create_pods(
        &mut self,
        set: &ReplicaSet,
        api: &Api<Pod>,
        count: usize,
    ) -> kube::Result<()> {
        let Some(pod) = template::pod(set).filter(|_| count > 0) else {
            return Ok(());
        };
        let params = PostParams::default();
        let mut left = count;
        while left > 0 {
            let batch = left.min(CONCURRENCY);
            let mut failed = None;
            for made in join_all((0..batch).map(|_| api.create(&params, &pod))).await {
                match made {
                    Ok(pod) => {
                        self.index.apply_pod(&pod);
                        let note = format!("Created pod: {}", pod.name_any());
                        self.emit(set, EventType::Normal, "SuccessfulCreate", note);
                    }
                    Err(error) => failed = Some(error),
                }
            }
            if let Some(error) = failed {
                self.create_failed(set, &error);
                return Err(error);
            }
            left -= batch;
        }
        self.failures.remove(&Key::of(set));
        Ok(())
    }

    /// Keeps the reason for the set's status, which the next sync writes.
    fn create_failed(&mut self, set: &ReplicaSet, error: &kube::Error) {
        let message = match error {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        };
        self.failures.insert(Key::of(set), message.clone());
        let note = format!("Error creating: {message}");
        self.emit(set, EventType::Warning, "FailedCreate", note);
    }

    async fn delete_pods(
        &mut self,
        set: &ReplicaSet,
        api: &Api<Pod>,
        surplus: &[Key],
    ) -> kube::Result<()> {
        for batch in surplus.chunks(CONCURRENCY) {
            let params: Vec<_> = batch.iter().map(|pod| self.delete_params(pod)).collect();
            let deletions = batch
                .iter()
                .zip(&params)
                .map(|(pod, params)| api.delete(&pod.name, params));
            for (pod, deleted) in batch.iter().zip(join_all(deletions).await) {
                match deleted {
                    Ok(_) => {
                        self.index.mark_deleting(pod);
                        let note = format!("Deleted pod: {}", pod.name);
                        self.emit(set, EventType::Normal, "SuccessfulDelete", note);
                    }
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Deletes only the pod that was decided on, not a new one of the same name.
    fn delete_params(&self, pod: &Key) -> DeleteParams {
        DeleteParams::background().preconditions(Preconditions {
            uid: self.index.uid_of_pod(pod),
            resource_version: None,
        })
    }

    fn emit(&self, set: &ReplicaSet, type_: EventType, reason: &'static str, note: String) {
        let event = Event {
            type_,
            reason,
            action: "Scale",
            note,
            related: None,
        };
        self.replica_set_events.record(&set.object_ref(&()), event);
    }
}
