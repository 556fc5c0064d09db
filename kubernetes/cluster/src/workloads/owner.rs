//! The owner of an object, and the objects that an owner selects.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::core::{Selector, SelectorExt};

/// The uid of the object that controls this one.
pub fn controller(metadata: &ObjectMeta) -> Option<&str> {
    let mut owners = metadata.owner_references.iter().flatten();
    let owner = owners.find(|owner| owner.controller == Some(true))?;
    Some(&owner.uid)
}

/// The selector of a Deployment or ReplicaSet. An invalid or empty one matches nothing; the API
/// refuses both.
pub struct Pick(Option<Selector>);

impl Pick {
    pub fn of(selector: Option<&LabelSelector>) -> Self {
        let selector = selector.and_then(|selector| Selector::try_from(selector.clone()).ok());
        Self(selector.filter(|selector| !selector.selects_all()))
    }

    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.as_ref().is_some_and(|selector| selector.matches(labels))
    }
}
