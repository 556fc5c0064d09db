//! What the watches have reported. Plain data: fed by `apply` and `delete`, read by `decide`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use berth_api::Subnet;

use super::pools::Pools;
use crate::machine::{Machine, Shape};

/// Which Machine. The namespace is empty where there is none.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    pub shape: Shape,
    pub namespace: String,
    pub name: String,
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let separator = if self.namespace.is_empty() { "" } else { "/" };
        write!(out, "{}{separator}{}", self.namespace, self.name)
    }
}

impl Key {
    pub fn of(machine: &Machine) -> Self {
        Self {
            shape: machine.shape,
            namespace: machine.metadata.namespace.clone().unwrap_or_default(),
            name: machine.metadata.name.clone().unwrap_or_default(),
        }
    }
}

/// BTreeMaps: a run with the same seed must take the same steps.
#[derive(Debug, Default)]
pub struct Index {
    machines: BTreeMap<Key, Arc<Machine>>,
    by_uid: BTreeMap<String, Key>,
    by_address: BTreeMap<IpAddr, BTreeSet<Key>>,
    pub pools: Pools,
}

impl Index {
    pub fn apply_machine(&mut self, machine: Arc<Machine>) -> Key {
        let key = Key::of(&machine);
        self.unlink(&key);
        for address in addresses(&machine) {
            self.by_address.entry(address).or_default().insert(key.clone());
        }
        if let Some(uid) = &machine.metadata.uid {
            self.by_uid.insert(uid.clone(), key.clone());
        }
        self.machines.insert(key.clone(), machine);
        key
    }

    /// Returns what was known of the Machine.
    pub fn delete_machine(&mut self, key: &Key) -> Option<Arc<Machine>> {
        self.unlink(key);
        self.machines.remove(key)
    }

    fn unlink(&mut self, key: &Key) {
        let Some(machine) = self.machine(key) else {
            return;
        };
        if let Some(uid) = &machine.metadata.uid {
            self.by_uid.remove(uid);
        }
        for address in addresses(&machine) {
            if let Some(keys) = self.by_address.get_mut(&address) {
                keys.remove(key);
                if keys.is_empty() {
                    self.by_address.remove(&address);
                }
            }
        }
    }

    /// The Machines whose spec has this address.
    pub fn with_address(&self, address: IpAddr) -> Vec<Arc<Machine>> {
        let keys = self.by_address.get(&address).into_iter().flatten();
        keys.filter_map(|key| self.machine(key)).collect()
    }

    pub fn apply_subnet(&mut self, subnet: &Subnet) -> bool {
        self.pools.apply(subnet)
    }

    pub fn machine(&self, key: &Key) -> Option<Arc<Machine>> {
        self.machines.get(key).cloned()
    }

    pub fn with_uid(&self, uid: &str) -> Option<Arc<Machine>> {
        self.machine(self.by_uid.get(uid)?)
    }

    /// All Machines, the oldest first.
    pub fn by_age(&self) -> Vec<Arc<Machine>> {
        let mut machines: Vec<Arc<Machine>> = self.machines.values().cloned().collect();
        machines.sort_by_key(|machine| {
            let created = machine.metadata.creation_timestamp.as_ref().map(|time| time.0);
            (created, Key::of(machine))
        });
        machines
    }

    pub fn keys(&self) -> Vec<Key> {
        self.by_age().iter().map(|machine| Key::of(machine)).collect()
    }
}

fn addresses(machine: &Machine) -> Vec<IpAddr> {
    let network = machine.network.as_ref().ok().and_then(Option::as_ref);
    let addresses = network.into_iter().flat_map(|network| &network.addresses);
    addresses.map(|address| address.ip).collect()
}
