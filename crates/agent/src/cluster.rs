//! What the agent has observed of the cluster: its NodeNetworkConfig, its node's pods, the states
//! of subnets. Plain data, fed by watches.

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
    /// Until the first full list, the number of pods says nothing.
    pub pods_known: bool,
    pub node: Option<OwnNode>,
    /// Only of subnets that run short.
    supplies: BTreeMap<String, Supply>,
}

/// A NodeNetworkConfig, and its spec as last known: the watch may not have shown our latest write
/// yet.
#[derive(Clone, Debug)]
pub struct NncFacts {
    pub delivered: Delivered,
    pub requested: i64,
    pub not_in_use: BTreeSet<String>,
    /// The addresses that the object says we hold although they are no longer delivered.
    pub held: Vec<IpAssignment>,
    /// The subnet could not give all that was asked for.
    pub subnet_is_full: bool,
    /// The version of the object that the containers come from; `written` is the one that the spec
    /// comes from.
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
    /// Applies the object unless a newer one is known, and returns whether it did. A watch that
    /// starts over may bring an older one.
    pub fn apply_nnc(&mut self, nnc: &NodeNetworkConfig) -> bool {
        let version = version_of(nnc);
        let uid = nnc.uid().unwrap_or_default();
        let known = self.nnc.as_ref().filter(|known| known.delivered.uid == uid);
        if known.is_some_and(|known| known.version > version) {
            return false;
        }
        let spec = &nnc.spec;
        // Our last write stands until the watch shows an object that contains it.
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
                // An unreadable annotation counts as empty: this agent reports what it holds
                // itself.
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

    /// A watch was restarted: its object is applied even if it is older than the known one. An API
    /// server that was restored from a backup counts from an earlier version.
    pub fn reset_nnc(&mut self, nnc: &NodeNetworkConfig) {
        self.nnc = None;
        self.apply_nnc(nnc);
    }

    /// Records our write and the API server's answer to it.
    pub fn record_write(&mut self, request: &Request, answer: &NodeNetworkConfig) {
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

    /// The worst supply among the node's own subnets.
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

/// API servers count up, one number for all objects of a kind. A version that is not a number
/// counts as newer than all.
fn version_of(nnc: &NodeNetworkConfig) -> u64 {
    let version = nnc.resource_version();
    version.and_then(|version| version.parse().ok()).unwrap_or(u64::MAX)
}
