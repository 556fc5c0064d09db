//! A watch of one kind, told as changes by name: of an object outside of our own namespace with
//! that before it.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use berth_api::names::NAMESPACE;
use kube::api::ListParams;
use kube::runtime::watcher::Event;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

#[derive(Clone, Debug)]
pub enum Change<K> {
    Apply(Arc<K>),
    Delete(String),
    /// The watch begins anew, and sends everything again: a server that was restored may send older
    /// states.
    Restarted,
    /// All that existed when the watch began has been told. Comes once.
    Synced,
}

/// Tells every change, for ever.
pub async fn follow<K>(api: Api<K>, mut tell: impl FnMut(Change<K>))
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let mut known = Known::default();
    berth_kit::follow::follow(api, ListParams::default(), |event| {
        known.changes(event).into_iter().for_each(&mut tell);
    })
    .await;
}

/// The names that were told. A watch that starts over sends everything again: what it no longer sends is gone.
#[derive(Debug, Default)]
struct Known {
    names: BTreeSet<String>,
    /// What has been sent since the watch started over.
    fresh: BTreeSet<String>,
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
                self.fresh.insert(key(&object));
                self.names.insert(key(&object));
                vec![Change::Apply(Arc::new(object))]
            }
            Event::InitDone => {
                let fresh = std::mem::take(&mut self.fresh);
                let gone = self.names.extract_if(.., |name| !fresh.contains(name));
                let mut changes: Vec<_> = gone.map(Change::Delete).collect();
                if !std::mem::replace(&mut self.synced, true) {
                    changes.push(Change::Synced);
                }
                changes
            }
            Event::Apply(object) => {
                self.names.insert(key(&object));
                vec![Change::Apply(Arc::new(object))]
            }
            Event::Delete(object) => {
                let name = key(&object);
                self.names.remove(&name);
                vec![Change::Delete(name)]
            }
        }
    }
}

/// Pods are watched in all namespaces.
pub fn key<K: Resource>(object: &K) -> String {
    let name = object.name_any();
    match object.namespace() {
        Some(namespace) if namespace != NAMESPACE => format!("{namespace}/{name}"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Node;

    use super::*;

    fn node(name: &str) -> Node {
        let mut node = Node::default();
        node.metadata.name = Some(name.to_owned());
        node
    }

    fn words(changes: Vec<Change<Node>>) -> Vec<String> {
        let word = |change: Change<Node>| match change {
            Change::Apply(node) => format!("apply {}", node.name_any()),
            Change::Delete(name) => format!("delete {name}"),
            Change::Restarted => "restarted".to_owned(),
            Change::Synced => "synced".to_owned(),
        };
        changes.into_iter().map(word).collect()
    }

    #[test]
    fn what_a_watch_that_started_over_no_longer_sends_is_deleted() {
        let mut known = Known::default();
        known.changes(Event::<Node>::Init);
        known.changes(Event::InitApply(node("a")));
        known.changes(Event::InitApply(node("b")));
        assert_eq!(words(known.changes(Event::InitDone)), ["synced"]);
        known.changes(Event::Apply(node("c")));
        known.changes(Event::<Node>::Init);
        assert_eq!(words(known.changes(Event::InitApply(node("b")))), ["apply b"]);
        assert_eq!(words(known.changes(Event::InitDone)), ["delete a", "delete c"]);
    }
}
