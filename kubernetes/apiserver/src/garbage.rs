//! Garbage collection by owner references. An object that has lost all its owners is deleted. An
//! object deleted in the foreground waits for its dependents. Orphans lose the reference.
//!
//! One loop over the store's events. It keeps the graph of owners and dependents, and reads the
//! store again before each decision, so a late or repeated event does no harm.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures::future::join_all;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::kinds::Kind;
use crate::resources::{
    DeleteOptions, FOREGROUND, ORPHAN, Propagation, Resources, Writer, mentions, without_finalizer,
};
use crate::store::{Event, EventKind, Key, Range};

/// Objects of one batch are handled concurrently, so their writes share a commit.
const BATCH_SIZE: usize = 64;

pub fn start(resources: Arc<Resources>, stop: CancellationToken) -> JoinHandle<()> {
    let mut events = resources.store.tap();
    tokio::spawn(async move {
        let mut collector = Collector {
            resources,
            dependents: HashMap::new(),
            owners: HashMap::new(),
            waiting: HashMap::new(),
            pending: BTreeSet::new(),
        };
        collector.load();
        loop {
            while !collector.pending.is_empty() {
                collector.sync_batch().await;
                while let Ok(event) = events.try_recv() {
                    collector.apply(&event);
                }
            }
            tokio::select! {
                () = stop.cancelled() => return,
                event = events.recv() => match event {
                    Some(event) => collector.apply(&event),
                    None => return,
                },
            }
        }
    })
}

struct Collector {
    resources: Arc<Resources>,
    /// Dependents by the UID of their owner.
    dependents: HashMap<String, BTreeSet<Key>>,
    /// Owner UIDs that each object refers to.
    owners: HashMap<Key, Vec<String>>,
    /// Objects deleted in the foreground, by UID. They are checked again when a dependent changes.
    waiting: HashMap<String, Key>,
    pending: BTreeSet<Key>,
}

impl Collector {
    fn load(&mut self) {
        for table in self.resources.store.tables() {
            let Ok(page) = self.resources.store.list(&table, &Range::default()) else {
                continue;
            };
            for ((namespace, name), record) in page.records {
                let key = Key {
                    table: table.clone(),
                    namespace,
                    name,
                };
                self.apply_object(key, &record.body);
            }
        }
    }

    fn apply(&mut self, event: &Event) {
        if event.kind != EventKind::Deleted {
            self.apply_object(event.key.clone(), &event.body);
            return;
        }
        self.delete(&event.key);
        let uid = text(&metadata_of(&event.body), "uid");
        self.waiting.remove(&uid);
        if let Some(dependents) = self.dependents.get(&uid) {
            self.pending.extend(dependents.iter().cloned());
        }
    }

    fn apply_object(&mut self, key: Key, body: &[u8]) {
        // The substring check saves parsing most objects; the parse decides.
        let refers = mentions(body, "\"ownerReferences\"");
        let held = mentions(body, FOREGROUND) || mentions(body, "\"orphan\"");
        if !refers && !held && !self.owners.contains_key(&key) {
            return;
        }
        self.delete(&key);
        let metadata = metadata_of(body);
        if held && is_deleting(&metadata) && has_finalizer(&metadata, FOREGROUND) {
            self.waiting.insert(text(&metadata, "uid"), key.clone());
        }
        let uids: Vec<String> = references(&metadata).map(|owner| text(owner, "uid")).collect();
        for uid in &uids {
            self.dependents.entry(uid.clone()).or_default().insert(key.clone());
        }
        self.owners.insert(key.clone(), uids);
        self.pending.insert(key);
    }

    fn delete(&mut self, key: &Key) {
        for uid in self.owners.remove(key).unwrap_or_default() {
            self.pending.extend(self.waiting.get(&uid).cloned());
            if let Some(dependents) = self.dependents.get_mut(&uid) {
                dependents.remove(key);
                if dependents.is_empty() {
                    self.dependents.remove(&uid);
                }
            }
        }
    }

    async fn sync_batch(&mut self) {
        let batch: Vec<Key> = std::iter::from_fn(|| self.pending.pop_first())
            .take(BATCH_SIZE)
            .collect();
        join_all(batch.iter().map(|key| self.sync_object(key))).await;
    }

    async fn sync_object(&self, key: &Key) {
        let Some(kind) = self.resources.registry.of_table(&key.table) else {
            return;
        };
        let Some(record) = self.resources.store.get(key) else {
            return;
        };
        let metadata = metadata_of(&record.body);
        let deleting = is_deleting(&metadata);
        if deleting && has_finalizer(&metadata, ORPHAN) {
            self.orphan(&kind, key, &metadata).await;
        } else if deleting && has_finalizer(&metadata, FOREGROUND) {
            self.foreground(&kind, key, &metadata).await;
        } else if !deleting {
            self.check_owners(&kind, key, &metadata).await;
        }
    }

    /// The dependents stay, without the reference to this object.
    async fn orphan(&self, kind: &Kind, key: &Key, metadata: &Value) {
        let uid = text(metadata, "uid");
        let freed = self.dependents.get(&uid).into_iter().flatten().map(|dependent| {
            let uid = uid.clone();
            self.drop_references(dependent, move |owner| text(owner, "uid") == uid)
        });
        join_all(freed).await;
        self.drop_finalizer(kind, key, ORPHAN).await;
    }

    /// Deletes the dependents first. The object goes once no dependent with
    /// `blockOwnerDeletion` is left.
    async fn foreground(&self, kind: &Kind, key: &Key, metadata: &Value) {
        let uid = text(metadata, "uid");
        let mut blocked = false;
        let mut going = Vec::new();
        for dependent in self.dependents.get(&uid).into_iter().flatten() {
            let Some(record) = self.resources.store.get(dependent) else {
                continue;
            };
            let metadata = metadata_of(&record.body);
            blocked |= references(&metadata)
                .any(|owner| text(owner, "uid") == uid && owner["blockOwnerDeletion"] == true);
            if !is_deleting(&metadata) {
                going.push(dependent);
            }
        }
        join_all(going.into_iter().map(|dependent| self.check_dependent(dependent))).await;
        if !blocked {
            self.drop_finalizer(kind, key, FOREGROUND).await;
        }
    }

    async fn check_dependent(&self, key: &Key) {
        let (kind, record) = (
            self.resources.registry.of_table(&key.table),
            self.resources.store.get(key),
        );
        if let (Some(kind), Some(record)) = (kind, record) {
            self.check_owners(&kind, key, &metadata_of(&record.body)).await;
        }
    }

    /// Deletes an object that has lost all its owners. Drops the lost references if an owner is
    /// left.
    async fn check_owners(&self, kind: &Kind, key: &Key, metadata: &Value) {
        let mut gone = Vec::new();
        let mut waiting = Vec::new();
        let mut solid = 0;
        for owner in references(metadata) {
            match self.owner_state(owner, &key.namespace) {
                OwnerState::Solid => solid += 1,
                OwnerState::Gone => gone.push(text(owner, "uid")),
                OwnerState::Waiting => waiting.push(text(owner, "uid")),
            }
        }
        if gone.is_empty() && waiting.is_empty() {
            return;
        }
        if solid > 0 {
            let lost = move |owner: &Value| {
                let uid = text(owner, "uid");
                gone.contains(&uid) || waiting.contains(&uid)
            };
            self.drop_references(key, lost).await;
            return;
        }
        let uid = text(metadata, "uid");
        let has_dependents = self.dependents.contains_key(&uid);
        let propagation = if waiting.is_empty() || !has_dependents {
            Propagation::Background
        } else {
            Propagation::Foreground
        };
        let options = DeleteOptions {
            propagation: Some(propagation),
            uid: Some(uid),
            // The decision holds for this version only: a new owner would make it wrong.
            version: Some(text(metadata, "resourceVersion")),
            ..DeleteOptions::default()
        };
        self.resources.collect(kind, &key.namespace, &key.name, options).await;
    }

    fn owner_state(&self, owner: &Value, namespace: &str) -> OwnerState {
        let Some(kind) = self
            .resources
            .registry
            .find_kind(&text(owner, "apiVersion"), &text(owner, "kind"))
        else {
            // An owner of a kind that is not served can't be looked up: it counts as present.
            return OwnerState::Solid;
        };
        let namespace = if kind.namespaced { namespace } else { "" };
        let Ok(record) = self.resources.get(&kind, namespace, &text(owner, "name")) else {
            return OwnerState::Gone;
        };
        let metadata = metadata_of(&record.body);
        if text(&metadata, "uid") != text(owner, "uid") {
            OwnerState::Gone
        } else if is_deleting(&metadata)
            && has_finalizer(&metadata, FOREGROUND)
            && owner["blockOwnerDeletion"] == true
        {
            OwnerState::Waiting
        } else {
            OwnerState::Solid
        }
    }

    async fn drop_references(&self, key: &Key, lost: impl Fn(&Value) -> bool) {
        let Some(kind) = self.resources.registry.of_table(&key.table) else {
            return;
        };
        let change = |object: &Value| {
            let mut object = object.clone();
            let metadata = object["metadata"].as_object_mut()?;
            let owners = metadata.get_mut("ownerReferences")?.as_array_mut()?;
            owners.retain(|owner| !lost(owner));
            if owners.is_empty() {
                metadata.remove("ownerReferences");
            }
            Some(object)
        };
        self.resources
            .adjust(&kind, &key.namespace, &key.name, &Writer::server(), change)
            .await;
    }

    async fn drop_finalizer(&self, kind: &Kind, key: &Key, finalizer: &str) {
        let change = |object: &Value| Some(without_finalizer(object, finalizer));
        self.resources
            .adjust(kind, &key.namespace, &key.name, &Writer::server(), change)
            .await;
    }
}

enum OwnerState {
    Solid,
    Gone,
    /// Deleted in the foreground, and waits for this dependent.
    Waiting,
}

fn references(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["ownerReferences"].as_array().into_iter().flatten()
}

fn is_deleting(metadata: &Value) -> bool {
    !metadata["deletionTimestamp"].is_null()
}

fn has_finalizer(metadata: &Value, name: &str) -> bool {
    let list = metadata["finalizers"].as_array();
    list.is_some_and(|list| list.iter().any(|found| found == name))
}

fn text(value: &Value, field: &str) -> String {
    value[field].as_str().unwrap_or_default().to_owned()
}

/// Parses only the metadata and skips the rest of the body.
fn metadata_of(body: &[u8]) -> Value {
    #[derive(serde::Deserialize, Default)]
    struct Head {
        #[serde(default)]
        metadata: Value,
    }
    let head: Head = serde_json::from_slice(body).unwrap_or_default();
    head.metadata
}
