//! An agent with a directory of its own and no cluster: what a NodeNetworkConfig would say, it is
//! told.

use std::path::{Path, PathBuf};
use std::time::Duration;

use berth_agent::journal::Found;
use berth_agent::{Agent, AgentMetrics, Clock, Storage};
use berth_api::{LeaseOf, NodeNetworkConfig, lease_name};
use prometheus_client::registry::Registry;
use serde_json::json;
use uuid::Uuid;

pub struct Node {
    pub agent: Agent,
    pub registry: Registry,
    directory: tempfile::TempDir,
    storage: Storage,
}

#[allow(dead_code, reason = "each test program needs some of it")]
impl Node {
    pub fn new() -> Self {
        Self::named("node-1")
    }

    pub fn named(name: &str) -> Self {
        Self::at(name, tempfile::tempdir().unwrap())
    }

    pub fn with_state(state_dir: &Path) -> Self {
        Self::keeping("node-1", tempfile::tempdir().unwrap(), state_dir)
    }

    fn at(name: &str, directory: tempfile::TempDir) -> Self {
        let state_dir = directory.path().join("state");
        Self::keeping(name, directory, &state_dir)
    }

    fn keeping(name: &str, directory: tempfile::TempDir, state_dir: &Path) -> Self {
        let mut registry = Registry::default();
        let metrics = AgentMetrics::register(&mut registry).of(name);
        let storage = Storage {
            node: name.to_owned(),
            state_dir: state_dir.to_owned(),
            mark: directory.path().join("mark"),
            boot: "this-boot".to_owned(),
            clock: Clock::Boot,
            rest: Duration::ZERO,
        };
        let (agent, found) = Agent::open(&storage, metrics).unwrap();
        assert!(!matches!(found, Found::Untrusted { .. }), "{found:?}");
        Self {
            agent,
            registry,
            directory,
            storage,
        }
    }

    /// As the next one would find it, without a word to the one that runs.
    pub fn open_again(&self) -> Agent {
        let metrics = AgentMetrics::register(&mut Registry::default()).of(&self.storage.node);
        Agent::open(&self.storage, metrics).unwrap().0
    }

    /// As after a crash: nothing is said to the old one.
    pub fn restart(self) -> Self {
        let Self { agent, directory, .. } = self;
        let name = agent.node().to_owned();
        drop(agent);
        Self::at(&name, directory)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn metrics(&self) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).unwrap();
        text
    }

    /// A container with these: IPv4 in 10.64.0.0/16; the n-th IPv6 goes with the n-th IPv4.
    pub fn deliver(&self, addresses: &[&str]) {
        let (first, second): (Vec<&str>, Vec<&str>) =
            addresses.iter().partition(|address| !address.contains(':'));
        let name = |n: usize| Uuid::from_u128(0xb0 + u128::try_from(n).unwrap());
        let firsts = first
            .iter()
            .enumerate()
            .map(|(n, ip)| json!({"name": name(n), "ip": ip}));
        let seconds = second.iter().enumerate();
        let seconds = seconds
            .map(|(n, ip)| json!({"name": lease_name(LeaseOf::Ipv6 { lease: name(n) }), "ip": ip}));
        let mut container = json!({
            "id": "nc-1", "primaryIP": "10.64.0.4", "subnetName": "pods", "subnetAddressSpace": "10.64.0.0/16",
            "defaultGateway": "10.64.0.1", "nodeIP": "192.0.2.1",
            "ipAssignments": firsts.chain(seconds).collect::<Vec<_>>(),
        });
        if !second.is_empty() {
            container["subnetAddressSpaceV6"] = json!("fd64::/64");
            container["defaultGatewayV6"] = json!("fd64::1");
        }
        let nnc = json!({
            "apiVersion": "acn.azure.com/v1alpha", "kind": "NodeNetworkConfig",
            "metadata": {"name": "node-1", "namespace": "kube-system", "uid": "u1", "resourceVersion": "1"},
            "spec": {"requestedIPCount": 16},
            "status": {"networkContainers": [container]},
        });
        let nnc: NodeNetworkConfig = serde_json::from_value(nnc).unwrap();
        self.agent.apply_nnc(&nnc);
    }
}
