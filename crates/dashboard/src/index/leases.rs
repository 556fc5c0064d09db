//! Berth's Leases: who leads.

use std::collections::BTreeMap;

use jiff::{Timestamp, ToSpan};
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use serde::Serialize;

/// The prefix of the names of Berth's Leases.
const PREFIX: &str = "berth-";

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderRow {
    /// The name of the Lease: it is named after its component.
    pub name: String,
    /// Empty if the holder has released the Lease.
    pub holder: String,
    pub since: Option<Timestamp>,
    pub transitions: i32,
    /// Whether it was not renewed within its duration.
    pub is_expired: bool,
}

#[derive(Debug, Default)]
pub struct Leases {
    leases: BTreeMap<String, Lease>,
}

impl Leases {
    pub fn apply(&mut self, lease: &Lease) {
        let name = lease.name_any();
        if name.starts_with(PREFIX) {
            self.leases.insert(name, lease.clone());
        }
    }

    pub fn delete(&mut self, name: &str) {
        self.leases.remove(name);
    }

    pub fn rows(&self, now: Timestamp) -> Vec<LeaderRow> {
        let rows = self.leases.iter().map(|(name, lease)| {
            let spec = lease.spec.clone().unwrap_or_default();
            let lasts = i64::from(spec.lease_duration_seconds.unwrap_or_default());
            let renewed = spec.renew_time.as_ref().map(|time| time.0);
            let ends = renewed.and_then(|renewed| renewed.checked_add(lasts.seconds()).ok());
            LeaderRow {
                name: name.clone(),
                holder: spec.holder_identity.unwrap_or_default(),
                since: spec.acquire_time.map(|time| time.0),
                transitions: spec.lease_transitions.unwrap_or_default(),
                is_expired: ends.is_none_or(|ends| ends < now),
            }
        });
        rows.collect()
    }
}
