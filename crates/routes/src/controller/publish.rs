//! The condition `NetworkUnavailable`, and events about Nodes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use berth_api::ObservedNode;
use berth_kit::events::{Event, Recorder};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::EventType;
use kube::{Api, Client};
use serde_json::json;

use super::watched::condition_of;
use crate::core::{Condition, Node};

/// Which nodes get their condition written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publish {
    /// Every node.
    All,
    /// Only the node of this process: it has the routes to all others, and needs none to itself.
    Own(String),
}

/// Writes under way at a time. More would wait inside the API server and delay the requests and
/// events of others, and ours.
pub const MAX_WRITES: usize = 16;
/// The delay before a failed write is tried again.
pub const WRITE_INTERVAL: Duration = Duration::from_secs(5);

/// Nodes whose condition is to be written, and the warnings that were emitted.
#[derive(Debug, Default)]
pub struct Publishing {
    waiting: VecDeque<String>,
    queued: BTreeSet<String>,
    pub under_way: BTreeSet<String>,
    /// The last warnings about a node: each is emitted when it is new.
    warned: BTreeMap<String, BTreeSet<String>>,
}

impl Publishing {
    pub fn push(&mut self, node: &str) {
        if self.queued.insert(node.to_owned()) {
            self.waiting.push_back(node.to_owned());
        }
    }

    /// Nodes that have warnings.
    pub fn warned(&self) -> impl Iterator<Item = &String> {
        self.warned.keys()
    }

    /// Takes the next node, unless too many writes are under way.
    pub fn pop(&mut self) -> Option<String> {
        if self.under_way.len() >= MAX_WRITES {
            return None;
        }
        let node = self.waiting.pop_front()?;
        self.queued.remove(&node);
        Some(node)
    }

    /// Drops all waiting nodes.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.queued.clear();
    }

    /// Replaces the warnings of the node, and returns those that it did not have before.
    pub fn new_warnings(&mut self, node: &str, warnings: BTreeSet<String>) -> BTreeSet<String> {
        let before = self.warned.remove(node).unwrap_or_default();
        let news = warnings.difference(&before).cloned().collect();
        if !warnings.is_empty() {
            self.warned.insert(node.to_owned(), warnings);
        }
        news
    }
}

/// A strategic merge, as upstream does it: conditions of other types stay.
pub async fn write_condition(
    client: Client,
    node: &str,
    uid: Option<&str>,
    condition: &Condition,
) -> kube::Result<()> {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let mut patch = json!({"status": {"conditions": [{
        "type": "NetworkUnavailable",
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message(),
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }]}});
    if let Some(uid) = uid {
        // The write fails for another node of the same name.
        patch["metadata"] = json!({"uid": uid});
    }
    let api = Api::<ObservedNode>::all(client);
    let params = PatchParams::default();
    api.patch_status(node, &params, &Patch::Strategic(patch))
        .await
        .map(drop)
}

/// Reads the condition of a node that is not watched.
pub async fn read_condition(client: Client, node: &str) -> kube::Result<Option<Condition>> {
    let node = Api::<ObservedNode>::all(client).get(node).await?;
    Ok(condition_of(&node))
}

pub fn warn(events: &Recorder, node: &Node, reason: &'static str, note: String) {
    let regarding = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Node".to_owned()),
        name: Some(node.name.clone()),
        uid: Some(node.uid.clone()),
        ..ObjectReference::default()
    };
    let event = Event {
        type_: EventType::Warning,
        reason,
        action: "CreateRoute",
        note,
        related: None,
    };
    events.record(&regarding, event);
}
