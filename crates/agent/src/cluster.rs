//! What the agent has seen of the cluster: its NodeNetworkConfig, its node's pods, the states of
//! subnets. Plain data, fed by watches.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use berth_addr::scaling::{self, PodOnNode, Supply};
use berth_api::nnc::{ContainerStatus, IpAssignment, held_of};
use berth_api::{ClusterSubnetState, NodeNetworkConfig, ObservedPod};
use kube::ResourceExt;

use crate::node::OwnNode;
use crate::pool::Delivered;

/// Namespace and name.
pub type PodKey = (String, String);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    pub uid: String,
    pub needs_address: bool,
    pub is_finished: bool,
    pub addresses: BTreeSet<IpAddr>,
}

#[derive(Debug, Default)]
pub struct Cluster {
    pub nnc: Option<NncFacts>,
    pub pods: BTreeMap<PodKey, PodFacts>,
    /// Until all pods are known their number says nothing.
    pub pods_known: bool,
    pub node: Option<OwnNode>,
    /// Of subnets that run short.
    supplies: BTreeMap<String, Supply>,
}

/// A NodeNetworkConfig, and its spec as we know it: what we have written since may not have come
/// back yet.
#[derive(Clone, Debug)]
pub struct NncFacts {
    pub delivered: Delivered,
    pub requested: i64,
    pub not_in_use: BTreeSet<String>,
    /// What it says that we hold beyond what is delivered.
    pub held: Vec<IpAssignment>,
    /// The subnet could not give all that was asked for.
    pub subnet_is_full: bool,
    /// The version of the object that the containers are of, and the one that the spec is of.
    version: u64,
    written: u64,
}

/// What the next write says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub uid: String,
    pub requested: i64,
    pub not_in_use: BTreeSet<String>,
    pub held: Vec<IpAssignment>,
}

impl PodFacts {
    pub fn of(pod: &ObservedPod) -> Self {
        let phase = pod.phase();
        let on_node = PodOnNode {
            phase,
            host_network: pod.is_on_host_network(),
        };
        Self {
            uid: pod.uid().unwrap_or_default(),
            needs_address: scaling::demand([on_node]) > 0,
            is_finished: phase.is_finished(),
            addresses: pod.addresses().collect(),
        }
    }
}

pub fn key_of(pod: &ObservedPod) -> PodKey {
    (pod.namespace().unwrap_or_default(), pod.name_any())
}

impl Cluster {
    /// Whether it is newer than what is known, and so is taken over. Watches that start over may
    /// bring an older one.
    pub fn apply_nnc(&mut self, nnc: &NodeNetworkConfig) -> bool {
        let version = version_of(nnc);
        let uid = nnc.uid().unwrap_or_default();
        let known = self.nnc.as_ref().filter(|known| known.delivered.uid == uid);
        if known.is_some_and(|known| known.version > version) {
            return false;
        }
        let spec = &nnc.spec;
        // What we wrote last stands until the object comes back that has it.
        let written = known.filter(|known| known.written > version);
        let (requested, not_in_use, held, written) = match written {
            Some(known) => (
                known.requested,
                known.not_in_use.clone(),
                known.held.clone(),
                known.written,
            ),
            None => (
                spec.requested_ip_count,
                spec.ips_not_in_use.iter().cloned().collect(),
                // Whatever an agent before this one wrote there, this one says what it holds.
                held_of(nnc).unwrap_or_default(),
                version,
            ),
        };
        self.nnc = Some(NncFacts {
            delivered: Delivered::read(nnc),
            requested,
            not_in_use,
            held,
            subnet_is_full: subnet_is_full(nnc),
            version,
            written,
        });
        true
    }

    /// A watch has begun anew: what it says is so, even if it is older than what was seen. An API
    /// server that was restored from a backup counts from an earlier version.
    pub fn reset_nnc(&mut self, nnc: &NodeNetworkConfig) {
        self.nnc = None;
        self.apply_nnc(nnc);
    }

    /// Our write has been answered with this.
    pub fn wrote(&mut self, request: &Request, answer: &NodeNetworkConfig) {
        if let Some(nnc) = self.nnc.as_mut().filter(|nnc| nnc.delivered.uid == request.uid) {
            nnc.requested = request.requested;
            nnc.not_in_use.clone_from(&request.not_in_use);
            nnc.held.clone_from(&request.held);
            nnc.written = nnc.written.max(version_of(answer));
        }
    }

    pub fn delete_nnc(&mut self) {
        self.nnc = None;
    }

    pub fn apply_state(&mut self, state: &ClusterSubnetState) {
        let status = state.status.as_ref().filter(|status| status.exhausted);
        match status {
            Some(status) => {
                // Controllers that do not say how many to keep mean one.
                let buffer = status.scaler.map_or(1, |scaler| scaler.buffer);
                let supply = if buffer > 0 { Supply::Exhausted } else { Supply::Awaited };
                self.supplies.insert(state.name_any(), supply);
            }
            None => self.delete_state(&state.name_any()),
        }
    }

    pub fn delete_state(&mut self, subnet: &str) {
        self.supplies.remove(subnet);
    }

    /// All that there are.
    pub fn set_states(&mut self, states: &[ClusterSubnetState]) {
        self.supplies.clear();
        states.iter().for_each(|state| self.apply_state(state));
    }

    /// Of the node's own subnets, and of no other: that of the shortest one.
    pub fn supply<'a>(&self, subnets: impl Iterator<Item = &'a str>) -> Supply {
        let known: Vec<Supply> = subnets
            .filter_map(|subnet| self.supplies.get(subnet).copied())
            .collect();
        match known.iter().find(|supply| **supply == Supply::Awaited) {
            Some(awaited) => *awaited,
            None => known.first().copied().unwrap_or_default(),
        }
    }

    /// The most pods that the node runs, where that is known.
    pub fn most_pods(&self) -> Option<u64> {
        self.node.as_ref()?.allocatable_pods.filter(|pods| *pods > 0)
    }

    pub fn demand(&self) -> u64 {
        let needing = self.pods.values().filter(|pod| pod.needs_address).count();
        u64::try_from(needing).unwrap_or(u64::MAX)
    }

    /// The addresses that living pods show; those on the host's network show the node's.
    pub fn observed(&self) -> BTreeSet<IpAddr> {
        let living = self.pods.values().filter(|pod| pod.needs_address);
        living.flat_map(|pod| pod.addresses.iter().copied()).collect()
    }
}

fn subnet_is_full(nnc: &NodeNetworkConfig) -> bool {
    let containers = nnc.status.iter().flat_map(|status| &status.network_containers);
    let mut statuses = containers.map(|container| container.status);
    statuses.any(|status| status == Some(ContainerStatus::SubnetFull))
}

/// API servers count up, one number for all objects of a kind. What is no number is newer than all.
fn version_of(nnc: &NodeNetworkConfig) -> u64 {
    let version = nnc.resource_version();
    version.and_then(|version| version.parse().ok()).unwrap_or(u64::MAX)
}
