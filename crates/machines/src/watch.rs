//! A watch of one kind, told as changes by namespace and name.

use std::fmt::Debug;
use std::sync::Arc;

use kube::api::ListParams;
use kube::{Api, Resource, ResourceExt};
use serde::de::DeserializeOwned;

use berth_kit::watch::{Change as Told, Key, changes};

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

/// Tells every change, for ever. A watch that starts over needs no word of its own here: what it
/// sends again is decided on again, and comes to nothing.
pub async fn follow<K>(api: Api<K>, mut tell: impl FnMut(Change<K>) + Send)
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    changes(api, ListParams::default(), |change| match change {
        Told::Apply(object) => tell(Change::Apply(object)),
        Told::Delete(Key { namespace, name }) => tell(Change::Delete((namespace, name))),
        Told::Restarted => {}
        Told::Synced => tell(Change::Synced),
    })
    .await;
}
