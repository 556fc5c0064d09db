//! Facts that only explanations need: warnings, Cluster API's claims, and clusters with machine
//! networks.

use std::collections::BTreeMap;

use berth_kit::watch::Key;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::api::ListParams;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use super::{Facts, GatherError, all};

/// A warning about an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFacts {
    pub kind: String,
    pub regarding: Key,
    pub reason: String,
    pub note: String,
    /// When it was last emitted.
    pub at: Option<Timestamp>,
}

impl EventFacts {
    pub fn of(event: &Event) -> Self {
        let regarding = &event.involved_object;
        let series = event
            .series
            .as_ref()
            .and_then(|series| series.last_observed_time.clone());
        let at = series.or_else(|| event.event_time.clone()).map(|time| time.0);
        let at = at.or_else(|| event.last_timestamp.as_ref().map(|time| time.0));
        Self {
            kind: regarding.kind.clone().unwrap_or_default(),
            regarding: Key {
                namespace: regarding.namespace.clone().unwrap_or_default(),
                name: regarding.name.clone().unwrap_or_default(),
            },
            reason: event.reason.clone().unwrap_or_default(),
            note: event.message.clone().unwrap_or_default(),
            at,
        }
    }
}

/// The condition Ready of an IPAddressClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimFacts {
    pub address: Option<String>,
    pub is_ready: bool,
    pub reason: String,
    pub message: String,
}

impl ClaimFacts {
    pub fn of(claim: &DynamicObject) -> Self {
        let text = |value: &Value, path: &str| {
            value
                .pointer(path)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let data = &claim.data;
        let conditions = data.pointer("/status/conditions").and_then(Value::as_array);
        let mut conditions = conditions.into_iter().flatten();
        let ready = conditions.find(|one| text(one, "/type") == "Ready");
        let ready = ready.cloned().unwrap_or_default();
        Self {
            address: Some(text(data, "/status/addressRef/name")).filter(|name| !name.is_empty()),
            is_ready: text(&ready, "/status") == "True",
            reason: text(&ready, "/reason"),
            message: text(&ready, "/message"),
        }
    }
}

/// Reads these facts, for [`crate::explain`].
pub fn gather_reports<'a>(
    client: &'a Client,
    facts: &'a mut Facts,
) -> BoxFuture<'a, Result<(), GatherError>> {
    Box::pin(async move {
        let warnings = ListParams::default().fields("type=Warning");
        let events = Api::<Event>::all(client.clone()).list(&warnings).await;
        let events = events.map_err(|source| GatherError {
            kind: "Event".to_owned(),
            source: Box::new(source),
        })?;
        facts.events = events.items.iter().map(EventFacts::of).collect();
        let claims = "ipam.cluster.x-k8s.io";
        for version in ["v1beta1", "v1beta2"] {
            let found = list(client, claims, version, "IPAddressClaim", "ipaddressclaims").await?;
            let found = found.iter().map(|claim| (Key::of(claim), ClaimFacts::of(claim)));
            facts.claims.extend(found);
        }
        let clusters = list(client, "kubermatic.k8s.io", "v1", "Cluster", "clusters").await?;
        facts.clusters = clusters.iter().map(ResourceExt::name_any).collect();
        Ok(())
    })
}

async fn list(
    client: &Client,
    group: &str,
    version: &str,
    kind: &str,
    plural: &str,
) -> Result<Vec<DynamicObject>, GatherError> {
    let gvk = GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
    let found = all(Api::all_with(client.clone(), &resource), kind).await?;
    Ok(found.unwrap_or_default())
}

impl Facts {
    /// The last warning of each reason about an object, the newest first.
    pub fn warnings(&self, kind: &str, key: &Key) -> Vec<&EventFacts> {
        let mut last: BTreeMap<&str, &EventFacts> = BTreeMap::new();
        let about = self
            .events
            .iter()
            .filter(|one| one.kind == kind && one.regarding == *key);
        for event in about {
            let kept = last.entry(&event.reason).or_insert(event);
            if event.at > kept.at {
                *kept = event;
            }
        }
        let mut warnings: Vec<&EventFacts> = last.into_values().collect();
        warnings.sort_by_key(|event| std::cmp::Reverse(event.at));
        warnings
    }
}
