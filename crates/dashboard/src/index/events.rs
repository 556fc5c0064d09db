//! The latest events about addresses.

use std::collections::BTreeMap;

use berth_kit::watch::Key;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use serde::Serialize;

/// At most this many are kept: a cluster has tens of thousands, and the page shows a few.
const MAX_EVENTS: usize = 200;

/// Kinds whose events are all kept.
const KINDS: [&str; 5] = [
    "Subnet",
    "NodeNetworkConfig",
    "AddressBlock",
    "Machine",
    "IPAddressClaim",
];

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventRow {
    pub time: Timestamp,
    pub is_warning: bool,
    pub reason: String,
    /// Such as `Pod default/web-3`.
    pub object: String,
    pub note: String,
    pub count: i32,
}

#[derive(Debug, Default)]
pub struct Events {
    rows: BTreeMap<(Timestamp, Key), EventRow>,
    times: BTreeMap<Key, Timestamp>,
}

impl Events {
    pub fn apply(&mut self, event: &Event) {
        let key = Key::of(event);
        self.delete(&key);
        if !is_of_interest(event) {
            return;
        }
        let row = row(event);
        self.times.insert(key.clone(), row.time);
        self.rows.insert((row.time, key), row);
        while self.rows.len() > MAX_EVENTS {
            if let Some(((_, key), _)) = self.rows.pop_first() {
                self.times.remove(&key);
            }
        }
    }

    pub fn delete(&mut self, key: &Key) {
        if let Some(time) = self.times.remove(key) {
            self.rows.remove(&(time, key.clone()));
        }
    }

    /// The latest first.
    pub fn latest(&self, count: usize) -> Vec<EventRow> {
        self.rows.values().rev().take(count).cloned().collect()
    }
}

/// Events of Berth, events about its kinds, and events that can mean that a pod lacks an address or
/// a node lacks a route.
fn is_of_interest(event: &Event) -> bool {
    let source = event.source.as_ref().and_then(|source| source.component.as_deref());
    let components = [event.reporting_component.as_deref(), source];
    let is_ours = components.into_iter().flatten().any(|name| name.starts_with("berth"));
    let kind = event.involved_object.kind.as_deref().unwrap_or_default();
    let is_about_network = ["FailedScheduling", "FailedCreatePodSandBox", "FailedToCreateRoute"]
        .contains(&event.reason.as_deref().unwrap_or_default());
    is_ours || is_about_network || KINDS.contains(&kind)
}

fn row(event: &Event) -> EventRow {
    let about = &event.involved_object;
    let key = Key {
        namespace: about.namespace.clone().unwrap_or_default(),
        name: about.name.clone().unwrap_or_default(),
    };
    let series = event.series.as_ref();
    let times = [
        series.and_then(|series| series.last_observed_time.as_ref().map(|time| time.0)),
        event.last_timestamp.as_ref().map(|time| time.0),
        event.event_time.as_ref().map(|time| time.0),
        event.creation_timestamp().map(|time| time.0),
    ];
    EventRow {
        time: times.into_iter().flatten().next().unwrap_or_default(),
        is_warning: event.type_.as_deref() == Some("Warning"),
        reason: event.reason.clone().unwrap_or_default(),
        object: format!("{} {key}", about.kind.clone().unwrap_or_default()),
        note: event.message.clone().unwrap_or_default(),
        count: series.and_then(|series| series.count).or(event.count).unwrap_or(1),
    }
}
