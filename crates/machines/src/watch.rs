//! A watch of one kind, told as changes by namespace and name.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use kube::api::ListParams;
use kube::runtime::watcher::Event;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

/// Namespace, empty where there is none, and name.
pub type Name = (String, String);

#[derive(Clone, Debug)]
pub enum Change<K> {
    Apply(Arc<K>),
    Delete(Name),
    /// All that existed when the watch began has been told. Comes once.
    Synced,
}

pub fn name_of<K: Resource>(object: &K) -> Name {
    (object.namespace().unwrap_or_default(), object.name_any())
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

/// What was told. A watch that starts over sends everything again: what it no longer sends is gone.
#[derive(Debug, Default)]
struct Known {
    names: BTreeSet<Name>,
    fresh: BTreeSet<Name>,
    synced: bool,
}

impl Known {
    fn changes<K: Resource>(&mut self, event: Event<K>) -> Vec<Change<K>> {
        match event {
            Event::Init => {
                self.fresh.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.fresh.insert(name_of(&object));
                self.names.insert(name_of(&object));
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
                self.names.insert(name_of(&object));
                vec![Change::Apply(Arc::new(object))]
            }
            Event::Delete(object) => {
                let name = name_of(&object);
                self.names.remove(&name);
                vec![Change::Delete(name)]
            }
        }
    }
}
