//! The state that the watches have sent. Plain data: fed by `apply_x` and `delete_x`, read by
//! `state` and `map`.

mod addresses;
mod blocks;
mod clusters;
mod events;
mod leases;
mod listed;
mod trim;

use std::collections::{BTreeMap, BTreeSet};

use berth_api::machines::Shape;
use berth_api::{
    AddressBlock, ClusterSubnetState, NodeNetworkConfig, ObservedNode, ObservedPod, Subnet,
};
use berth_inspect::Facts;
use berth_inspect::facts::{MachineFacts, PodFacts};
use berth_kit::watch::Key;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use kube::core::DynamicObject;

pub use addresses::Addresses;
pub use blocks::{Blocks, Owned};
pub use clusters::{ClusterFacts, cidrs as cluster_cidrs, is_vsphere};
pub use events::{EventRow, Events};
pub use leases::{LeaderRow, Leases};
pub use listed::Lister;

/// `berth_inspect` reads the [`Facts`]. The rest makes the map fast, or is shown only on the page.
#[derive(Debug, Default)]
pub struct Index {
    pub facts: Facts,
    pub addresses: Addresses,
    pub blocks: Blocks,
    pub leases: Leases,
    pub events: Events,
    pub clusters: BTreeMap<String, ClusterFacts>,
    /// Kinds whose first list is not complete yet.
    pub unsynced: BTreeSet<String>,
    /// The group and the key of each Machine: Machines come in two kinds.
    machine_kinds: BTreeSet<(String, Key)>,
}

impl Index {
    /// The cluster does not have this kind. Most clusters have no Machines and no Clusters. Those
    /// go by their group, which begins in lower case, and are not reported as missing.
    pub fn mark_missing(&mut self, kind: &str) {
        let is_kind = |c: char| c.is_ascii_uppercase();
        if kind.starts_with(is_kind) && !self.facts.missing.iter().any(|one| one == kind) {
            self.facts.missing.push(kind.to_owned());
        }
    }

    pub fn mark_found(&mut self, kind: &str) {
        self.facts.missing.retain(|one| one != kind);
    }

    pub fn apply_node(&mut self, node: &ObservedNode) {
        let name = node.name_any();
        self.delete_node(&name);
        let node = trim::node(node);
        self.addresses.add_node(&name, &node);
        self.facts.nodes.insert(name, node);
    }

    pub fn delete_node(&mut self, name: &str) {
        if let Some(node) = self.facts.nodes.remove(name) {
            self.addresses.remove_node(name, &node);
        }
    }

    pub fn apply_nnc(&mut self, nnc: &NodeNetworkConfig) {
        let name = nnc.name_any();
        self.delete_nnc(&name);
        let nnc = trim::nnc(nnc);
        self.addresses.add_nnc(&name, &nnc);
        self.facts.nncs.insert(name, nnc);
    }

    pub fn delete_nnc(&mut self, name: &str) {
        if let Some(nnc) = self.facts.nncs.remove(name) {
            self.addresses.remove_nnc(name, &nnc);
        }
    }

    pub fn apply_subnet(&mut self, subnet: &Subnet) {
        self.facts.subnets.insert(subnet.name_any(), subnet.clone());
    }

    pub fn delete_subnet(&mut self, name: &str) {
        self.facts.subnets.remove(name);
    }

    pub fn apply_subnet_state(&mut self, state: &ClusterSubnetState) {
        self.facts.states.insert(state.name_any(), state.clone());
    }

    pub fn delete_subnet_state(&mut self, name: &str) {
        self.facts.states.remove(name);
    }

    pub fn apply_pod(&mut self, pod: &ObservedPod) {
        let key = Key::of(pod);
        self.delete_pod(&key);
        let pod = PodFacts::of(pod);
        if pod.is_living() {
            self.addresses.add_pod(&key, &pod.addresses);
        }
        self.facts.pods.insert(key, pod);
    }

    pub fn delete_pod(&mut self, key: &Key) {
        if let Some(pod) = self.facts.pods.remove(key) {
            self.addresses.remove_pod(key, &pod.addresses);
        }
    }

    pub fn apply_machine(&mut self, group: &str, machine: &DynamicObject) {
        let key = Key::of(machine);
        self.delete_machine(group, &key);
        let facts = MachineFacts::of(machine);
        self.addresses.add_machine(&key, &facts.addresses);
        self.facts.machines.insert(key.clone(), facts);
        self.machine_kinds.insert((group.to_owned(), key));
    }

    /// Does nothing if the Machine of this name is in the other group.
    pub fn delete_machine(&mut self, group: &str, key: &Key) {
        if !self.machine_kinds.remove(&(group.to_owned(), key.clone())) {
            return;
        }
        if let Some(machine) = self.facts.machines.remove(key) {
            self.addresses.remove_machine(key, &machine.addresses);
        }
    }

    /// The group of a Machine; if both groups have the name, either of them.
    pub fn machine_group(&self, key: &Key) -> Option<&'static str> {
        let groups = Shape::ALL.map(Shape::group);
        let has = |group: &&str| self.machine_kinds.contains(&((*group).to_owned(), key.clone()));
        groups.into_iter().find(has)
    }

    pub fn apply_cluster(&mut self, cluster: &DynamicObject) {
        self.clusters.insert(cluster.name_any(), ClusterFacts::of(cluster));
    }

    pub fn delete_cluster(&mut self, name: &str) {
        self.clusters.remove(name);
    }

    pub fn apply_block(&mut self, block: &AddressBlock) {
        self.blocks.apply(block);
    }

    pub fn delete_block(&mut self, name: &str) {
        self.blocks.delete(name);
    }

    pub fn apply_lease(&mut self, lease: &Lease) {
        self.leases.apply(lease);
    }

    pub fn delete_lease(&mut self, name: &str) {
        self.leases.delete(name);
    }

    pub fn apply_event(&mut self, event: &Event) {
        self.events.apply(event);
    }

    pub fn delete_event(&mut self, key: &Key) {
        self.events.delete(key);
    }
}
