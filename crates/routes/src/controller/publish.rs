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

/// Whose condition is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Publish {
    /// That of every node.
    All,
    /// That of the node that this process is on: it has the routes to all others. It needs none to
    /// itself.
    Own(String),
}

/// Writes under way at a time. More of them would not be done sooner: they would wait in the API
/// server, and what others ask of it, and tell us by it, would wait behind them.
pub const MAX_WRITES: usize = 16;
/// A condition that could not be written is tried again after so long.
pub const WRITE_INTERVAL: Duration = Duration::from_secs(5);

/// What is to be written, and what was said about nodes already.
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

    /// Nodes that something was said about.
    pub fn warned(&self) -> impl Iterator<Item = &String> {
        self.warned.keys()
    }

    /// One that nothing is written about now.
    pub fn pop(&mut self) -> Option<String> {
        if self.under_way.len() >= MAX_WRITES {
            return None;
        }
        let node = self.waiting.pop_front()?;
        self.queued.remove(&node);
        Some(node)
    }

    /// Nothing is to be written about anybody.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.queued.clear();
    }

    /// Whether these are not what was said last.
    pub fn are_news(&mut self, node: &str, warnings: BTreeSet<String>) -> BTreeSet<String> {
        let before = self.warned.remove(node).unwrap_or_default();
        let news = warnings.difference(&before).cloned().collect();
        if !warnings.is_empty() {
            self.warned.insert(node.to_owned(), warnings);
        }
        news
    }
}

/// As upstream does: a strategic merge, so that the conditions of others stay.
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
        // Another node of the same name is not meant.
        patch["metadata"] = json!({"uid": uid});
    }
    let api = Api::<ObservedNode>::all(client);
    let params = PatchParams::default();
    api.patch_status(node, &params, &Patch::Strategic(patch))
        .await
        .map(drop)
}

/// What is there before this process has written anything, for a node that is not watched.
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
