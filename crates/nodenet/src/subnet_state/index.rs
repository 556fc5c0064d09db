//! Subnets, and what is published of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use berth_api::{ClusterSubnetState, Subnet};
use berth_kit::watch::{Change, Key};
use kube::ResourceExt;

#[derive(Debug, Default)]
pub struct Index {
    subnets: BTreeMap<String, Arc<Subnet>>,
    states: BTreeMap<String, Arc<ClusterSubnetState>>,
}

impl Index {
    /// Returns the subnet that must be reconciled.
    pub fn apply_subnet(&mut self, change: &Change<Subnet>) -> Option<String> {
        changed(&mut self.subnets, change)
    }

    /// Returns the subnet that must be reconciled.
    pub fn apply_state(&mut self, change: &Change<ClusterSubnetState>) -> Option<String> {
        changed(&mut self.states, change)
    }

    /// Keeps what was written just now: until the watch reports it, it would be written again.
    pub fn set_state(&mut self, name: &str, written: ClusterSubnetState) {
        self.states.insert(name.to_owned(), Arc::new(written));
    }

    pub fn get(&self, name: &str) -> (Option<Arc<Subnet>>, Option<Arc<ClusterSubnetState>>) {
        (self.subnets.get(name).cloned(), self.states.get(name).cloned())
    }
}

fn changed<K: ResourceExt>(
    objects: &mut BTreeMap<String, Arc<K>>,
    change: &Change<K>,
) -> Option<String> {
    match change {
        Change::Apply(object) => {
            let name = object.name_any();
            objects.insert(name.clone(), Arc::clone(object));
            Some(name)
        }
        Change::Delete(Key { name, .. }) => {
            objects.remove(name);
            Some(name.clone())
        }
        Change::Restarted | Change::Synced => None,
    }
}
