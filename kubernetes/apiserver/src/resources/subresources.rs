//! Subresources that are more than a part of their object: binding, eviction, scale, finalize.

use serde_json::{Map, Value, json};

use super::{DeleteOptions, Resources, Writer, metadata};
use crate::kinds::{Kind, ScalePaths};
use crate::store::Record;
use berth_apimachinery::selectors::Labels;
use berth_apimachinery::status::{FieldError, Path, Result, Status};

impl Resources {
    /// Gives a pod its node. Twice is a conflict, even to the same node.
    pub async fn bind(&self, pods: &Kind, namespace: &str, name: &str, binding: &Value, writer: &Writer) -> Result<()> {
        let target = &binding["target"];
        let node = target["name"].as_str().unwrap_or_default();
        let kind = target["kind"].as_str().unwrap_or("Node");
        // Kubernetes has no reason for these two, only a 500.
        if kind != "Node" && !kind.is_empty() {
            let why = format!(r#"target.kind: Unsupported value: {kind:?}: supported values: "Node", "<empty>""#);
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
        // Both the node and the condition are written at once, past the rule that a pod's spec does not change.
        let writer = Writer {
            subresource: "binding".to_owned(),
            ..writer.clone()
        };
        self.change(pods, namespace, name, &writer, usize::MAX, |live| {
            if metadata::is_deleting(live) {
                return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
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
            Ok(pod)
        })
        .await?;
        Ok(())
    }

    pub async fn evict(&self, pods: &Kind, namespace: &str, name: &str, eviction: &Value, dry_run: bool) -> Result<()> {
        let mut options = DeleteOptions::parse(&eviction["deleteOptions"], |_| None)?;
        options.dry_run |= dry_run;
        self.delete(pods, namespace, name, &options).await?;
        Ok(())
    }

    /// The Scale of an object.
    pub fn scale(&self, kind: &Kind, paths: &ScalePaths, object: &Value) -> Value {
        let mut metadata = Map::new();
        for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
            if let Some(value) = object["metadata"].get(field) {
                metadata.insert(field.to_owned(), value.clone());
            }
        }
        let number = |path: &str| at(object, path).and_then(Value::as_i64).unwrap_or_default();
        let mut scale = json!({
            "kind": "Scale",
            "apiVersion": "autoscaling/v1",
            "metadata": metadata,
            "spec": {"replicas": number(&paths.spec_replicas)},
            "status": {"replicas": number(&paths.status_replicas)},
        });
        if scale["spec"]["replicas"] == 0 {
            // Go leaves a zero out here.
            scale["spec"] = json!({});
        }
        let selector = paths.label_selector.as_deref().and_then(|path| at(object, path));
        if let Some(selector) = selector {
            // Custom resources give the selector as text, built-in kinds as an object.
            let text = match selector.as_str() {
                Some(text) if kind.custom.is_some() => text.to_owned(),
                _ => selector_text(selector),
            };
            scale["status"]["selector"] = text.into();
        }
        scale
    }

    /// `next` makes the Scale that is wanted from the one that is.
    pub async fn set_scale(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        next: impl Fn(&Value) -> Result<Value>,
        writer: &Writer,
    ) -> Result<Record> {
        let Some(paths) = &kind.scale else {
            return Err(Status::no_such_path());
        };
        let updated = self.change(kind, namespace, name, writer, usize::MAX, |live| {
            let scale = next(&self.scale(kind, paths, live))?;
            let replicas = replicas(&scale, name)?;
            let given = super::update::version_of(&scale);
            let found = live["metadata"]["resourceVersion"].as_str();
            if given.as_deref().is_some_and(|given| Some(given) != found) {
                return Err(Status::stale(kind.subject(), name));
            }
            let mut object = live.clone();
            if let Some(place) = at_mut(&mut object, &paths.spec_replicas) {
                *place = replicas.into();
            }
            Ok(object)
        });
        Ok(updated.await?.record)
    }

    /// A namespace gives up finalizers of its spec; with the last one it goes.
    pub async fn finalize(&self, kind: &Kind, name: &str, object: &Value, writer: &Writer) -> Result<Record> {
        let finalizers = object["spec"]["finalizers"].clone();
        let updated = self.change(kind, "", name, writer, usize::MAX, |live| {
            let mut namespace = live.clone();
            namespace["spec"]["finalizers"] = if finalizers.is_null() {
                json!([])
            } else {
                finalizers.clone()
            };
            Ok(namespace)
        });
        Ok(updated.await?.record)
    }
}

fn replicas(scale: &Value, name: &str) -> Result<i64> {
    let replicas = scale["spec"]["replicas"].as_i64().unwrap_or_default();
    if (0..=i64::from(i32::MAX)).contains(&replicas) {
        return Ok(replicas);
    }
    let subject = berth_apimachinery::status::Subject {
        group: "autoscaling",
        resource: "scales",
        kind: "Scale",
    };
    let detail = "must be greater than or equal to 0";
    let error = FieldError::invalid(Path::new("spec.replicas"), replicas.into(), detail);
    Err(Status::invalid(subject, name, &[error]))
}

/// A label selector as a client would write it.
fn selector_text(selector: &Value) -> String {
    let parsed = serde_json::from_value(selector.clone()).ok();
    let labels = parsed.and_then(|selector| Labels::of(&selector).ok());
    labels.map(|labels| labels.to_string()).unwrap_or_default()
}

fn set_condition(status: &mut Value, kind: &str, now: &str) {
    let mut conditions: Vec<Value> = status["conditions"].as_array().cloned().unwrap_or_default();
    conditions.retain(|condition| condition["type"] != kind);
    conditions.push(json!({"type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": now}));
    status["conditions"] = conditions.into();
}

/// `.spec.replicas` in an object.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    object.pointer(&path.replace('.', "/"))
}

fn at_mut<'a>(object: &'a mut Value, path: &str) -> Option<&'a mut Value> {
    let mut place = object;
    for name in path.split('.').filter(|name| !name.is_empty()) {
        if !place.is_object() {
            *place = json!({});
        }
        place = place.as_object_mut()?.entry(name).or_insert(Value::Null);
    }
    Some(place)
}
