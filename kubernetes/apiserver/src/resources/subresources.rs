//! Subresources that are not just a part of their object: binding, eviction, finalize.

use berth_apimachinery::status::{Result, Status};
use serde_json::{Value, json};

use super::{DeleteOptions, Resources, Writer, metadata};
use crate::kinds::Kind;
use crate::store::Record;

impl Resources {
    /// Binds a pod to a node. A second binding is a conflict, even to the same node.
    pub async fn bind(
        &self,
        pods: &Kind,
        namespace: &str,
        name: &str,
        binding: &Value,
        writer: &Writer,
    ) -> Result<()> {
        let target = &binding["target"];
        let node = target["name"].as_str().unwrap_or_default();
        let kind = target["kind"].as_str().unwrap_or("Node");
        // Kubernetes has no reason for these two, only a 500.
        if kind != "Node" && !kind.is_empty() {
            let why = format!(
                r#"target.kind: Unsupported value: {kind:?}: supported values: "Node", "<empty>""#
            );
            return Err(Status::unclassified(why));
        }
        if node.is_empty() {
            return Err(Status::unclassified("target.name: Required value"));
        }
        let conflict = |why: String| {
            let subject = berth_apimachinery::status::Subject {
                group: "",
                resource: "pods/binding",
                kind: "Pod",
            };
            Err(Status::conflict(subject, name, why))
        };
        let now = self.now();
        // One write sets both the node and the condition. A binding may change the pod's spec.
        let writer = Writer {
            subresource: "binding".to_owned(),
            ..writer.clone()
        };
        self.change(pods, namespace, name, &writer, usize::MAX, |live| {
            let meant = binding["metadata"]["uid"].as_str().filter(|uid| !uid.is_empty());
            if let (Some(meant), Some(uid)) = (meant, live["metadata"]["uid"].as_str())
                && meant != uid
            {
                return conflict(format!(
                    "Precondition failed: UID in precondition: {meant}, UID in object meta: {uid}"
                ));
            }
            if metadata::is_deleting(live) {
                return conflict(format!(
                    "pod {name} is being deleted, cannot be assigned to a host"
                ));
            }
            if let Some(there) = live["spec"]["nodeName"].as_str().filter(|n| !n.is_empty()) {
                return conflict(format!("pod {name} is already assigned to node {there:?}"));
            }
            let mut pod = live.clone();
            pod["spec"]["nodeName"] = node.into();
            for field in ["annotations", "labels"] {
                if let Some(given) = binding["metadata"][field].as_object() {
                    let mut all = pod["metadata"][field].as_object().cloned().unwrap_or_default();
                    all.extend(given.clone());
                    pod["metadata"][field] = all.into();
                }
            }
            set_condition(&mut pod["status"], "PodScheduled", &now);
            Ok(pod.into())
        })
        .await?;
        Ok(())
    }

    pub async fn evict(
        &self,
        pods: &Kind,
        namespace: &str,
        name: &str,
        eviction: &Value,
        dry_run: bool,
    ) -> Result<()> {
        let mut options = DeleteOptions::parse(&eviction["deleteOptions"], |_| None)?;
        options.dry_run |= dry_run;
        self.delete(pods, namespace, name, &options).await?;
        Ok(())
    }

    /// Replaces the finalizers in a namespace's spec. A deleted namespace goes with the last one.
    pub async fn finalize(
        &self,
        kind: &Kind,
        name: &str,
        object: &Value,
        writer: &Writer,
    ) -> Result<Record> {
        let finalizers = object["spec"]["finalizers"].clone();
        let updated = self.change(kind, "", name, writer, usize::MAX, |live| {
            let mut namespace = live.clone();
            namespace["spec"]["finalizers"] = if finalizers.is_null() {
                json!([])
            } else {
                finalizers.clone()
            };
            Ok(namespace.into())
        });
        Ok(updated.await?.record)
    }
}

fn set_condition(status: &mut Value, kind: &str, now: &str) {
    let mut conditions: Vec<Value> = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|condition| condition["type"] != kind);
    conditions.push(
        json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": now}),
    );
    status["conditions"] = conditions.into();
}
