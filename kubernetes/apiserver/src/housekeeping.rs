//! What a control plane does beside its API: it creates a ServiceAccount in each namespace, deletes
//! the content of deleted namespaces and definitions, and expires events.

mod remains;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::kinds::{CONTENT_FINALIZER, DEFINITIONS};
use crate::resources::{
    DeleteOptions, Propagation, Resources, Writer, mentions, without_finalizer,
};
use crate::store::{Event, EventKind, Key, Place, Range, Record, Store};

use remains::Remains;

/// As kube-apiserver's `--event-ttl`.
const EVENT_TTL: SignedDuration = SignedDuration::from_hours(1);
const SWEEP_INTERVAL: Duration = Duration::from_secs(60);
/// kube-apiserver has no such limit, but here events are in memory. Some thousands of pods that
/// come and go leave fewer.
const MAX_EVENTS: usize = 10_000;
/// So many new events start a sweep before its time.
const SWEEP_AFTER: usize = 1_000;
const EVENTS: &str = "events";
const ACCOUNTS: &str = "serviceaccounts";

pub fn start(resources: Arc<Resources>, stop: CancellationToken) -> JoinHandle<()> {
    let mut events = resources.store.tap();
    tokio::spawn(async move {
        let mut keeper = Keeper {
            resources,
            namespaces: BTreeSet::new(),
            terminating: BTreeSet::new(),
            tables: BTreeSet::new(),
            new_events: 0,
        };
        keeper.load();
        let mut sweep = tokio::time::interval(SWEEP_INTERVAL);
        loop {
            keeper.handle().await;
            tokio::select! {
                () = stop.cancelled() => return,
                event = events.recv() => match event {
                    Some(event) => keeper.apply(&event),
                    None => return,
                },
                _ = sweep.tick() => keeper.sweep().await,
            }
            while let Ok(event) = events.try_recv() {
                keeper.apply(&event);
            }
            if keeper.new_events > SWEEP_AFTER {
                keeper.sweep().await;
            }
        }
    })
}

struct Keeper {
    resources: Arc<Resources>,
    /// Namespaces to sync.
    namespaces: BTreeSet<Arc<str>>,
    /// Namespaces that are being deleted. They are synced again when an object in them is deleted.
    terminating: BTreeSet<Arc<str>>,
    /// Definitions to sync. A definition's name is that of its table.
    tables: BTreeSet<Arc<str>>,
    /// Events created since the last sweep.
    new_events: usize,
}

impl Keeper {
    fn load(&mut self) {
        for (table, names) in [
            (Store::NAMESPACES, &mut self.namespaces),
            (DEFINITIONS, &mut self.tables),
        ] {
            let page = self.resources.store.list(table, &Range::default());
            let records = page.map(|page| page.records).unwrap_or_default();
            names.extend(records.into_iter().map(|((_, name), _)| name));
        }
    }

    fn apply(&mut self, event: &Event) {
        let key = &event.key;
        if &*key.table == EVENTS && event.kind == EventKind::Added {
            self.new_events += 1;
        }
        if &*key.table == Store::NAMESPACES {
            self.namespaces.insert(key.name.clone());
        } else if &*key.table == DEFINITIONS {
            self.tables.insert(key.name.clone());
        }
        if event.kind == EventKind::Deleted {
            let account = &*key.table == ACCOUNTS && &*key.name == "default";
            if account || self.terminating.contains(&key.namespace) {
                self.namespaces.insert(key.namespace.clone());
            }
            if self.resources.store.exists(DEFINITIONS, "", &key.table) {
                self.tables.insert(key.table.clone());
            }
        }
    }

    async fn handle(&mut self) {
        for name in std::mem::take(&mut self.namespaces) {
            self.sync_namespace(&name).await;
        }
        for table in std::mem::take(&mut self.tables) {
            self.sync_definition(&table).await;
        }
    }

    async fn sync_namespace(&mut self, name: &Arc<str>) {
        let Some(record) = self.resources.store.get(&Key::new(Store::NAMESPACES, "", name)) else {
            self.terminating.remove(name);
            return;
        };
        let object: Value = serde_json::from_slice(&record.body).unwrap_or_default();
        if object["metadata"]["deletionTimestamp"].is_null() {
            self.create_default_account(name).await;
            return;
        }
        self.terminating.insert(name.clone());
        let mut remains = Remains::default();
        for table in self.resources.store.tables() {
            remains.add(&table, &self.delete_content(&table, Some(name)).await);
        }
        let Some(kind) = self.resources.registry.find("", "v1", "namespaces") else {
            return;
        };
        if !remains.is_empty() {
            let writer = Writer {
                subresource: "status".to_owned(),
                ..Writer::server()
            };
            let now = self.resources.clock.now();
            let change = |namespace: &Value| remains.with_conditions(namespace, now);
            self.resources.adjust(&kind, "", name, &writer, change).await;
            return;
        }
        // The commit checks again that nothing is left.
        let released = json!({"spec": {"finalizers": []}});
        let finalized = self.resources.finalize(&kind, name, &released, &Writer::server()).await;
        if let Err(status) = finalized
            && status.code != 404
        {
            tracing::warn!(namespace = %name, %status, "cannot finalize the namespace");
        }
    }

    /// Pods need the `default` ServiceAccount.
    async fn create_default_account(&self, namespace: &str) {
        if self.resources.store.exists(ACCOUNTS, namespace, "default") {
            return;
        }
        if let Some(kind) = self.resources.registry.find("", "v1", ACCOUNTS) {
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
            let made = self
                .resources
                .create(&kind, namespace, account, &Writer::server())
                .await;
            if let Err(status) = made
                && !matches!(status.code, 403 | 404 | 409)
            {
                tracing::warn!(namespace, %status, "cannot create the default ServiceAccount");
            }
        }
    }

    async fn sync_definition(&self, table: &Arc<str>) {
        let Some(record) = self.resources.store.get(&Key::new(DEFINITIONS, "", table)) else {
            return;
        };
        if !mentions(&record.body, CONTENT_FINALIZER)
            || !mentions(&record.body, "deletionTimestamp")
        {
            return;
        }
        if self.delete_content(table, None).await.is_empty()
            && let Some(kind) = self.resources.registry.of_table(DEFINITIONS)
        {
            let change = |object: &Value| Some(without_finalizer(object, CONTENT_FINALIZER));
            self.resources.adjust(&kind, "", table, &Writer::server(), change).await;
        }
    }

    /// Deletes the objects of a table, or of one namespace in it. Returns those that are left.
    async fn delete_content(&self, table: &str, namespace: Option<&Arc<str>>) -> Vec<Record> {
        let range = Range {
            namespace: namespace.cloned(),
            ..Range::default()
        };
        let Some(kind) = self.resources.registry.of_table(table) else {
            return Vec::new();
        };
        let records =
            |store: &Store| store.list(table, &range).map(|page| page.records).unwrap_or_default();
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        let found = records(&self.resources.store);
        for some in found.chunks(64) {
            let going = some
                .iter()
                .filter(|(_, record)| !mentions(&record.body, "\"deletionTimestamp\""))
                .map(|((namespace, name), _)| {
                    self.resources.collect(&kind, namespace, name, options.clone())
                });
            join_all(going).await;
        }
        let left = records(&self.resources.store).into_iter();
        left.map(|(_, record)| record).collect()
    }

    async fn sweep(&mut self) {
        self.new_events = 0;
        let Some(kind) = self.resources.registry.find("", "v1", EVENTS) else {
            return;
        };
        let page = self.resources.store.list(&kind.table(), &Range::default());
        let oldest = self.resources.clock.now().checked_sub(EVENT_TTL);
        let (Ok(page), Ok(oldest)) = (page, oldest) else {
            return;
        };
        let seen = page.records.into_iter().map(|(place, record)| {
            let event: Value = serde_json::from_slice(&record.body).unwrap_or_default();
            (last_seen(&event), place)
        });
        for some in expired(seen.collect(), oldest).chunks(64) {
            let going = some.iter().map(|(namespace, name)| {
                self.resources.collect(&kind, namespace, name, DeleteOptions::default())
            });
            join_all(going).await;
        }
    }
}

/// Events that are too old, and the oldest of those above [`MAX_EVENTS`].
fn expired(mut events: Vec<(Option<Timestamp>, Place)>, oldest: Timestamp) -> Vec<Place> {
    events.sort();
    let surplus = events.len().saturating_sub(MAX_EVENTS);
    let is_old = |seen: Option<Timestamp>| seen.is_some_and(|seen| seen < oldest);
    let going = events.into_iter().enumerate();
    going
        .filter(|(index, (seen, _))| *index < surplus || is_old(*seen))
        .map(|(_, (_, place))| place)
        .collect()
}

fn last_seen(event: &Value) -> Option<Timestamp> {
    let times = [
        &event["series"]["lastObservedTime"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["metadata"]["creationTimestamp"],
    ];
    times.iter().filter_map(|time| time.as_str()?.parse().ok()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(second: usize) -> Timestamp {
        Timestamp::from_second(i64::try_from(second).unwrap()).unwrap()
    }

    #[test]
    fn events_go_when_they_are_old_or_too_many_the_oldest_first() {
        let place = |n: usize| -> Place { ("default".into(), format!("e{n:05}").into()) };
        let events =
            |count: usize| -> Vec<_> { (0..count).map(|n| (Some(second(n)), place(n))).collect() };
        assert_eq!(expired(events(100), second(0)), []);
        assert_eq!(expired(events(100), second(2)), [place(0), place(1)]);
        let going = expired(events(MAX_EVENTS + 3), second(0));
        assert_eq!(going, [place(0), place(1), place(2)]);
        // An event without a time counts as the oldest.
        let mut some = events(MAX_EVENTS);
        some.push((None, place(99_999)));
        assert_eq!(expired(some, second(0)), [place(99_999)]);
    }
}
