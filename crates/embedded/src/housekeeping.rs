//! What a control plane does beside its API: a ServiceAccount in each namespace, namespaces and definitions that take their content along
//! when they go, events that don't stay for ever.

mod remains;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::api::{Api, CLEANUP, DeleteOptions, Propagation, Writer, mentions};
use crate::garbage::without_finalizer;
use crate::kinds::DEFINITIONS;
use crate::store::{Event, EventKind, Key, Range, Record, Store};

use remains::Remains;

/// As kube-apiserver's `--event-ttl`.
const EVENTS_LIVE: SignedDuration = SignedDuration::from_hours(1);
const SWEEP_EVERY: Duration = Duration::from_secs(60);
const ACCOUNTS: &str = "serviceaccounts";

pub fn start(api: Arc<Api>, stop: CancellationToken) -> JoinHandle<()> {
    let mut events = api.store.tap();
    tokio::spawn(async move {
        let mut keeper = Keeper {
            api,
            namespaces: BTreeSet::new(),
            leaving: BTreeSet::new(),
            tables: BTreeSet::new(),
        };
        keeper.learn_all();
        let mut sweep = tokio::time::interval(SWEEP_EVERY);
        loop {
            keeper.attend().await;
            tokio::select! {
                () = stop.cancelled() => return,
                event = events.recv() => match event {
                    Some(event) => keeper.learn(&event),
                    None => return,
                },
                _ = sweep.tick() => keeper.sweep().await,
            }
            while let Ok(event) = events.try_recv() {
                keeper.learn(&event);
            }
        }
    })
}

struct Keeper {
    api: Arc<Api>,
    /// Namespaces to look at.
    namespaces: BTreeSet<Arc<str>>,
    /// Namespaces that are being deleted: whatever goes in them may be the last.
    leaving: BTreeSet<Arc<str>>,
    /// Definitions to look at; each has the name of its table.
    tables: BTreeSet<Arc<str>>,
}

impl Keeper {
    fn learn_all(&mut self) {
        for (table, names) in [
            (Store::NAMESPACES, &mut self.namespaces),
            (DEFINITIONS, &mut self.tables),
        ] {
            let page = self.api.store.list(table, &Range::default());
            let records = page.map(|page| page.records).unwrap_or_default();
            names.extend(records.into_iter().map(|((_, name), _)| name));
        }
    }

    fn learn(&mut self, event: &Event) {
        let key = &event.key;
        if &*key.table == Store::NAMESPACES {
            self.namespaces.insert(key.name.clone());
        } else if &*key.table == DEFINITIONS {
            self.tables.insert(key.name.clone());
        }
        if event.kind == EventKind::Deleted {
            let account = &*key.table == ACCOUNTS && &*key.name == "default";
            if account || self.leaving.contains(&key.namespace) {
                self.namespaces.insert(key.namespace.clone());
            }
            if self.api.store.exists(DEFINITIONS, "", &key.table) {
                self.tables.insert(key.table.clone());
            }
        }
    }

    async fn attend(&mut self) {
        for name in std::mem::take(&mut self.namespaces) {
            self.attend_namespace(&name).await;
        }
        for table in std::mem::take(&mut self.tables) {
            self.attend_definition(&table).await;
        }
    }

    async fn attend_namespace(&mut self, name: &Arc<str>) {
        let Some(record) = self.api.store.get(&Key::new(Store::NAMESPACES, "", name)) else {
            self.leaving.remove(name);
            return;
        };
        let object: Value = serde_json::from_slice(&record.body).unwrap_or_default();
        if object["metadata"]["deletionTimestamp"].is_null() {
            self.furnish(name).await;
            return;
        }
        self.leaving.insert(name.clone());
        let mut remains = Remains::default();
        for table in self.api.store.tables() {
            remains.add(&table, &self.empty(&table, Some(name)).await);
        }
        let Some(kind) = self.api.registry.find("", "v1", "namespaces") else {
            return;
        };
        if !remains.is_empty() {
            let writer = Writer {
                subresource: "status".to_owned(),
                ..Writer::server()
            };
            let now = self.api.clock.now();
            let change = |namespace: &Value| remains.told(namespace, now);
            self.api.adjust(&kind, "", name, &writer, change).await;
            return;
        }
        // The commit itself checks once more that nothing is left.
        let released = json!({"spec": {"finalizers": []}});
        let finalized = self.api.finalize(&kind, name, &released, &Writer::server()).await;
        if let Err(status) = finalized
            && status.code != 404
        {
            tracing::warn!(namespace = %name, %status, "could not be finalized");
        }
    }

    /// Pods need the `default` ServiceAccount to be there.
    async fn furnish(&self, namespace: &str) {
        if self.api.store.exists(ACCOUNTS, namespace, "default") {
            return;
        }
        if let Some(kind) = self.api.registry.find("", "v1", ACCOUNTS) {
            let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
            let made = self.api.create(&kind, namespace, account, &Writer::server()).await;
            if let Err(status) = made
                && !matches!(status.code, 403 | 404 | 409)
            {
                tracing::warn!(namespace, %status, "no default ServiceAccount");
            }
        }
    }

    async fn attend_definition(&self, table: &Arc<str>) {
        let Some(record) = self.api.store.get(&Key::new(DEFINITIONS, "", table)) else {
            return;
        };
        if !mentions(&record.body, CLEANUP) || !mentions(&record.body, "deletionTimestamp") {
            return;
        }
        if self.empty(table, None).await.is_empty()
            && let Some(kind) = self.api.registry.of_table(DEFINITIONS)
        {
            let change = |object: &Value| Some(without_finalizer(object, CLEANUP));
            self.api.adjust(&kind, "", table, &Writer::server(), change).await;
        }
    }

    /// Deletes what is in a table, or in a namespace of it; gives what is still there.
    async fn empty(&self, table: &str, namespace: Option<&Arc<str>>) -> Vec<Record> {
        let range = Range {
            namespace: namespace.cloned(),
            ..Range::default()
        };
        let Some(kind) = self.api.registry.of_table(table) else {
            return Vec::new();
        };
        let records = |store: &Store| store.list(table, &range).map(|page| page.records).unwrap_or_default();
        let options = DeleteOptions {
            propagation: Some(Propagation::Background),
            ..DeleteOptions::default()
        };
        let found = records(&self.api.store);
        for some in found.chunks(64) {
            let going = some
                .iter()
                .filter(|(_, record)| !mentions(&record.body, "\"deletionTimestamp\""))
                .map(|((namespace, name), _)| self.api.collect(&kind, namespace, name, options.clone()));
            join_all(going).await;
        }
        let left = records(&self.api.store).into_iter();
        left.map(|(_, record)| record).collect()
    }

    async fn sweep(&self) {
        let Some(kind) = self.api.registry.find("", "v1", "events") else {
            return;
        };
        let page = self.api.store.list(&kind.table(), &Range::default());
        let oldest = self.api.clock.now().checked_sub(EVENTS_LIVE);
        let (Ok(page), Ok(oldest)) = (page, oldest) else {
            return;
        };
        for ((namespace, name), record) in page.records {
            let event: Value = serde_json::from_slice(&record.body).unwrap_or_default();
            if last_seen(&event).is_some_and(|seen| seen < oldest) {
                let options = DeleteOptions::default();
                self.api.collect(&kind, &namespace, &name, options).await;
            }
        }
    }
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
