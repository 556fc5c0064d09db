//! A pod as its ReplicaSet sees it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::owner::controller;
use berth_kit::watch::Key;

/// A pod as its ReplicaSet sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Member {
    pub uid: String,
    /// The uid of its controller; empty when it has none.
    pub owner: String,
    pub labels: BTreeMap<String, String>,
    pub placed: bool,
    pub running: bool,
    /// Succeeded or failed.
    pub finished: bool,
    pub deleting: bool,
    pub ready_since: Option<Timestamp>,
    pub deletion_cost: i32,
    pub created: i64,
}

impl Member {
    pub fn of(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let phase = status.and_then(|s| s.phase.as_deref());
        let mut conditions = status.iter().flat_map(|s| s.conditions.iter().flatten());
        let ready = conditions.find(|c| c.type_ == "Ready" && c.status == "True");
        let cost = pod.annotations().get("controller.kubernetes.io/pod-deletion-cost");
        Self {
            uid: pod.uid().unwrap_or_default(),
            owner: controller(&pod.metadata).unwrap_or_default().to_owned(),
            labels: pod.labels().clone(),
            placed: pod.spec.as_ref().is_some_and(|s| s.node_name.is_some()),
            running: phase == Some("Running"),
            finished: matches!(phase, Some("Succeeded" | "Failed")),
            deleting: pod.metadata.deletion_timestamp.is_some(),
            ready_since: ready.map(|c| {
                let since = c.last_transition_time.as_ref();
                since.map_or(Timestamp::UNIX_EPOCH, |time| time.0)
            }),
            deletion_cost: cost.and_then(|cost| cost.parse().ok()).unwrap_or(0),
            created: pod.creation_timestamp().map_or(0, |t| t.0.as_second()),
        }
    }

    /// Whether the set counts both states the same. The node of a pod only matters for the choice
    /// of pods to delete.
    pub fn counts_as(&self, other: &Self) -> bool {
        let key = |member: &Self| (member.finished, member.deleting, member.ready_since);
        self.uid == other.uid
            && self.owner == other.owner
            && self.labels == other.labels
            && key(self) == key(other)
    }

    pub fn active(&self) -> bool {
        !self.finished && !self.deleting
    }
}

/// A pod and its key.
pub type Found<'a> = (&'a Key, &'a Member);
