//! One watch per kind, read by several loops.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::warn;

/// Namespace (empty for cluster-scoped kinds) and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
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

impl std::fmt::Display for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

#[derive(Clone, Debug)]
pub enum Change<K> {
    Apply(Arc<K>),
    Delete(Key),
    /// All that existed when the watch began has been sent. Comes once.
    Synced,
}

/// How many changes a reader may lag behind before the watch waits for it: a storm must slow the
/// watch, not fill the memory.
const LAG: usize = 1024;

/// Watches a kind once and sends what changes to every subscriber, in order.
///
/// A watch that has to start over sends everything again; what it no longer sends becomes a
/// `Delete` here, so that subscribers know no resets.
#[derive(Debug)]
pub struct Feed<K> {
    api: Api<K>,
    subscribers: Vec<mpsc::Sender<Change<K>>>,
    known: BTreeSet<Key>,
    /// What has been sent since the watch started over.
    fresh: BTreeSet<Key>,
    synced: bool,
}

impl<K> Feed<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    pub fn new(api: Api<K>) -> Self {
        Self {
            api,
            subscribers: Vec::new(),
            known: BTreeSet::new(),
            fresh: BTreeSet::new(),
            synced: false,
        }
    }

    pub fn subscribe(&mut self) -> mpsc::Receiver<Change<K>> {
        let (sender, receiver) = mpsc::channel(LAG);
        self.subscribers.push(sender);
        receiver
    }

    pub async fn run(mut self, token: CancellationToken) {
        let follow = async {
            let mut events = watcher(self.api.clone(), watcher::Config::default())
                .default_backoff()
                // No loop reads who wrote which field, and it is half of a small object.
                .modify(|object| object.managed_fields_mut().clear())
                .boxed();
            loop {
                match events.try_next().await {
                    Ok(Some(event)) => {
                        for change in self.changes(event) {
                            for subscriber in &self.subscribers {
                                // A subscriber that has ended needs nothing any more.
                                let _ = subscriber.send(change.clone()).await;
                            }
                        }
                    }
                    Ok(None) => return,
                    Err(error) => warn!(%error, resource = self.api.resource_url(), "watch failed, it is tried again"),
                }
            }
        };
        token.run_until_cancelled(follow).await;
    }

    fn changes(&mut self, event: watcher::Event<K>) -> Vec<Change<K>> {
        match event {
            watcher::Event::Init => {
                self.fresh.clear();
                Vec::new()
            }
            watcher::Event::InitApply(object) => {
                let key = Key::of(&object);
                self.known.insert(key.clone());
                self.fresh.insert(key);
                vec![Change::Apply(Arc::new(object))]
            }
            watcher::Event::InitDone => {
                let fresh = std::mem::take(&mut self.fresh);
                let gone = self.known.extract_if(.., |key| !fresh.contains(key));
                let mut changes: Vec<_> = gone.map(Change::Delete).collect();
                if !std::mem::replace(&mut self.synced, true) {
                    changes.push(Change::Synced);
                }
                changes
            }
            watcher::Event::Apply(object) => {
                self.known.insert(Key::of(&object));
                vec![Change::Apply(Arc::new(object))]
            }
            watcher::Event::Delete(object) => {
                let key = Key::of(&object);
                self.known.remove(&key);
                vec![Change::Delete(key)]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Client;
    use kube::client::Body;
    use watcher::Event;

    use super::*;

    fn feed() -> Feed<ConfigMap> {
        let nobody = tower::service_fn(async |_: http::Request<Body>| {
            Err::<http::Response<Body>, _>(std::io::Error::other("nobody answers here"))
        });
        Feed::new(Api::all(Client::new(nobody, "default")))
    }

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
            Change::Synced => "synced".into(),
        };
        changes.into_iter().map(word).collect()
    }

    #[tokio::test]
    async fn what_a_restarted_watch_no_longer_sends_is_deleted() {
        let mut feed = feed();
        feed.changes(Event::Init);
        feed.changes(Event::InitApply(named("a")));
        feed.changes(Event::InitApply(named("b")));
        assert_eq!(words(feed.changes(Event::InitDone)), ["synced"]);
        feed.changes(Event::Apply(named("c")));
        feed.changes(Event::Init);
        assert_eq!(words(feed.changes(Event::InitApply(named("b")))), ["apply default/b"]);
        assert_eq!(
            words(feed.changes(Event::InitDone)),
            ["delete default/a", "delete default/c"]
        );
    }
}
