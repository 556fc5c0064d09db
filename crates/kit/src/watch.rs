//! A watch of one kind, told as changes by namespace and name: to one listener ([`changes`]) or to
//! several ([`Feed`]).
//!
//! A watch that has to start over sends everything again. Objects that it no longer sends are
//! reported as deleted, so that an index needs no resets.

use std::collections::BTreeSet;
use std::fmt;
use std::fmt::Debug;
use std::sync::Arc;

use kube::api::ListParams;
use kube::runtime::watcher::Event;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::{mpsc, watch as signal};
use tokio_util::sync::CancellationToken;

use crate::follow::{Told, follow};

/// Namespace (empty for cluster-scoped kinds) and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub namespace: String,
    pub name: String,
}

impl Key {
    pub fn of(object: &impl ResourceExt) -> Self {
        Self {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

#[derive(Debug)]
pub enum Change<K> {
    Apply(Arc<K>),
    Delete(Key),
    /// The watch starts or starts over, and sends everything. A server that was restored from a
    /// backup may send older states.
    Restarted,
    /// All that existed when the watch began has been reported. This comes once.
    Synced,
}

/// This is not derived: a derive would require a `K` that can be cloned.
impl<K> Clone for Change<K> {
    fn clone(&self) -> Self {
        match self {
            Self::Apply(object) => Self::Apply(Arc::clone(object)),
            Self::Delete(key) => Self::Delete(key.clone()),
            Self::Restarted => Self::Restarted,
            Self::Synced => Self::Synced,
        }
    }
}

/// Tells every change to the objects that `selection` selects, for ever.
pub async fn changes<K>(api: Api<K>, selection: ListParams, mut tell: impl FnMut(Change<K>) + Send)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut known = Known::default();
    follow(api, selection, |event| {
        known.changes(event).into_iter().for_each(&mut tell);
    })
    .await;
}

/// How many changes a subscriber may lag behind before the watch waits for it: a burst must slow
/// the watch, not fill the memory.
const MAX_LAG: usize = 1024;

/// Watches a kind once and sends what changes to every subscriber, in order.
#[derive(Debug)]
pub struct Feed<K> {
    api: Api<K>,
    subscribers: Vec<mpsc::Sender<Change<K>>>,
}

impl<K> Feed<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    pub fn new(api: Api<K>) -> Self {
        Self {
            api,
            subscribers: Vec::new(),
        }
    }

    pub fn subscribe(&mut self) -> mpsc::Receiver<Change<K>> {
        let (sender, receiver) = mpsc::channel(MAX_LAG);
        self.subscribers.push(sender);
        receiver
    }

    pub async fn run(self, stop: CancellationToken) {
        let subscribers = Subscribers {
            known: Known::default(),
            senders: self.subscribers,
        };
        let following = follow(self.api, ListParams::default(), subscribers);
        stop.run_until_cancelled(following).await;
    }
}

struct Subscribers<K> {
    known: Known,
    senders: Vec<mpsc::Sender<Change<K>>>,
}

impl<K: Resource + Send + Sync> Told<K> for Subscribers<K> {
    async fn tell(&mut self, event: Event<K>) {
        for change in self.known.changes(event) {
            for sender in &self.senders {
                // A subscriber that has ended needs nothing any more.
                let _ = sender.send(change.clone()).await;
            }
        }
    }
}

/// How many watches have not yet reported all that existed when they began.
#[derive(Clone, Debug)]
pub struct Synced {
    missing: Arc<signal::Sender<usize>>,
}

impl Default for Synced {
    fn default() -> Self {
        Self {
            missing: Arc::new(signal::Sender::new(0)),
        }
    }
}

impl Synced {
    /// Counts one more watch. That watch must hand every change to [`Synced::observe`].
    pub fn one_more(&self) -> Self {
        self.missing.send_modify(|missing| *missing += 1);
        self.clone()
    }

    pub fn observe<K>(&self, change: &Change<K>) {
        if matches!(change, Change::Synced) {
            let fewer = |missing: &mut usize| *missing = missing.saturating_sub(1);
            self.missing.send_modify(fewer);
        }
    }

    /// Returns once every watch has reported all that existed.
    pub async fn all(&self) {
        let mut missing = self.missing.subscribe();
        // `self` holds the sender, so the channel does not close before.
        let _ = missing.wait_for(|missing| *missing == 0).await;
    }
}

/// The objects that were reported.
#[derive(Debug, Default)]
struct Known {
    keys: BTreeSet<Key>,
    /// What has been sent since the watch started over.
    fresh: BTreeSet<Key>,
    synced: bool,
}

impl Known {
    fn changes<K: Resource>(&mut self, event: Event<K>) -> Vec<Change<K>> {
        match event {
            Event::Init => {
                self.fresh.clear();
                vec![Change::Restarted]
            }
            Event::InitApply(object) => {
                let key = Key::of(&object);
                self.fresh.insert(key.clone());
                self.keys.insert(key);
                vec![Change::Apply(Arc::new(object))]
            }
            Event::InitDone => {
                let fresh = std::mem::take(&mut self.fresh);
                let gone = self.keys.extract_if(.., |key| !fresh.contains(key));
                let mut changes: Vec<_> = gone.map(Change::Delete).collect();
                if !std::mem::replace(&mut self.synced, true) {
                    changes.push(Change::Synced);
                }
                changes
            }
            Event::Apply(object) => {
                self.keys.insert(Key::of(&object));
                vec![Change::Apply(Arc::new(object))]
            }
            Event::Delete(object) => {
                let key = Key::of(&object);
                self.keys.remove(&key);
                vec![Change::Delete(key)]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    fn named(name: &str) -> ConfigMap {
        let mut object = ConfigMap::default();
        object.metadata.namespace = Some("default".into());
        object.metadata.name = Some(name.into());
        object
    }

    fn words(changes: Vec<Change<ConfigMap>>) -> Vec<String> {
        let word = |change: Change<ConfigMap>| match change {
            Change::Apply(object) => format!("apply {}", Key::of(object.as_ref())),
            Change::Delete(key) => format!("delete {key}"),
            Change::Restarted => "restarted".to_owned(),
            Change::Synced => "synced".to_owned(),
        };
        changes.into_iter().map(word).collect()
    }

    #[test]
    fn what_a_watch_that_started_over_no_longer_sends_is_deleted() {
        let mut known = Known::default();
        assert_eq!(words(known.changes(Event::Init)), ["restarted"]);
        known.changes(Event::InitApply(named("a")));
        known.changes(Event::InitApply(named("b")));
        assert_eq!(words(known.changes(Event::InitDone)), ["synced"]);
        known.changes(Event::Apply(named("c")));
        known.changes(Event::<ConfigMap>::Init);
        let again = known.changes(Event::InitApply(named("b")));
        assert_eq!(words(again), ["apply default/b"]);
        let gone = words(known.changes(Event::InitDone));
        assert_eq!(gone, ["delete default/a", "delete default/c"]);
    }

    #[tokio::test]
    async fn all_are_synced_when_the_last_watch_is() {
        let synced = Synced::default();
        let (one, other) = (synced.one_more(), synced.one_more());
        one.observe(&Change::<ConfigMap>::Synced);
        assert!(futures::poll!(std::pin::pin!(synced.all())).is_pending());
        other.observe(&Change::<ConfigMap>::Restarted);
        assert!(futures::poll!(std::pin::pin!(synced.all())).is_pending());
        other.observe(&Change::<ConfigMap>::Synced);
        synced.all().await;
    }
}
