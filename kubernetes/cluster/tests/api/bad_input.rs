//! Bad input gets the Status that kube-apiserver gives, by code, reason and field causes, and
//! changes nothing.

mod body;
mod custom;
mod expired;
mod immutable;
mod lifecycle;
mod metadata;
mod negotiation;
mod patches;
mod policies;
mod selection;
mod values;
mod versions;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Deref;

use serde_json::{Value, json};

use crate::namespace::Namespace;
use crate::request::{Request, get};

/// A namespace in which requests are refused. All that goes wrong in a test is told at its end, not
/// only the first.
struct Desk {
    namespace: Namespace,
    /// Collections and objects that no refused request may change.
    guarded: RefCell<Vec<String>>,
    wrong: RefCell<Vec<String>>,
}

impl Desk {
    fn new() -> Self {
        let namespace = Namespace::new();
        let mut guarded: Vec<String> = ["configmaps", "pods", "secrets", "services"]
            .iter()
            .map(|kind| namespace.core(kind))
            .collect();
        guarded.push(namespace.group("apps/v1", "deployments"));
        Self {
            namespace,
            guarded: RefCell::new(guarded),
            wrong: RefCell::default(),
        }
    }

    fn guard(&self, path: impl Into<String>) {
        self.guarded.borrow_mut().push(path.into());
    }

    /// Expects this refusal. A cause is a reason and a field.
    fn refuses(
        &self,
        what: &str,
        request: Request,
        code: u16,
        reason: &str,
        causes: &[(&str, &str)],
    ) -> Value {
        let before = self.state();
        let answer = request.send();
        let status: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        // Kubernetes may find two things wrong with one field: that is one cause here.
        let found: BTreeSet<(String, String)> = status["details"]["causes"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|cause| (text(&cause["reason"]), text(&cause["field"])))
            .collect();
        let wanted: BTreeSet<(String, String)> = causes
            .iter()
            .map(|(reason, field)| ((*reason).to_owned(), (*field).to_owned()))
            .collect();
        let same = answer.code == code && text(&status["reason"]) == reason && found == wanted;
        let well_formed = status["kind"] == "Status"
            && status["status"] == "Failure"
            && status["code"] == answer.code;
        if !same || !well_formed {
            let (code_got, reason_got) = (answer.code, text(&status["reason"]));
            let words = if well_formed {
                text(&status["message"])
            } else {
                String::from_utf8_lossy(&answer.body).chars().take(300).collect()
            };
            self.note(format!(
                "{what}: wanted {code} {reason} {wanted:?}\n    got {code_got} \
                 {reason_got} {found:?}\n    {words}"
            ));
        }
        if self.state() != before {
            self.note(format!("{what}: something has changed"));
        }
        status
    }

    fn note(&self, what: String) {
        self.wrong.borrow_mut().push(what);
    }

    /// What is guarded, without what controllers write meanwhile.
    fn state(&self) -> Vec<Value> {
        let paths = self.guarded.borrow();
        let mut state: Vec<Value> = paths.iter().map(|path| get(path).send().expect(200)).collect();
        for found in &mut state {
            if let Some(items) = found["items"].as_array_mut() {
                items.retain(|item| item["metadata"]["name"] != "kube-root-ca.crt");
                // The pods of a Deployment come when they come.
                items.retain(|item| item["metadata"]["ownerReferences"].is_null());
                items.iter_mut().for_each(strip);
                *found = json!(items);
            } else {
                strip(found);
            }
        }
        state
    }
}

fn strip(object: &mut Value) {
    object["status"] = Value::Null;
    object["metadata"]["resourceVersion"] = Value::Null;
    object["metadata"]["managedFields"] = Value::Null;
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.retain(|key, _| !key.starts_with("deployment.kubernetes.io/"));
        if annotations.is_empty() {
            // The first one that a controller writes brings the map along.
            object["metadata"]["annotations"] = Value::Null;
        }
    }
}

impl Deref for Desk {
    type Target = Namespace;

    fn deref(&self) -> &Namespace {
        &self.namespace
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let wrong = self.wrong.borrow();
        if !wrong.is_empty() && !std::thread::panicking() {
            panic!(
                "{} of the refusals are not as they should be:\n  {}",
                wrong.len(),
                wrong.join("\n  ")
            );
        }
    }
}

pub fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

/// A pod that no scheduler takes.
pub fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "x"}]},
    })
}

pub fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "x"}]},
            },
        },
    })
}

/// The object with something of it changed.
pub fn but(object: &Value, pointer: &str, value: Value) -> Value {
    let mut object = object.clone();
    let mut place = &mut object;
    for name in pointer.split('/').skip(1) {
        place = match name.parse::<usize>() {
            Ok(index) if place.is_array() => &mut place[index],
            _ => &mut place[name],
        };
    }
    *place = value;
    object
}
