//! An agent that serves, with what a NodeNetworkConfig would have said.

use std::path::Path;
use std::time::Duration;

use berth_agent::queue::{Directory, Drain, Flavour};
use berth_agent::server::{Listener, router};
use berth_agent::{Agent, AgentMetrics, Clock, Storage};
use berth_api::agent::AddressState;
use berth_api::{LeaseOf, NodeNetworkConfig, lease_name};
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

pub struct Serving {
    pub agent: Agent,
    stopping: CancellationToken,
    /// Ends with this.
    _runtime: Runtime,
}

impl Serving {
    /// With so many addresses of each family, 10.64.0.10 and fd64::a the first. Socket, state and
    /// queue are in the directory.
    pub fn start(directory: &Path, count: u8) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let storage = Storage {
            node: "node-1".to_owned(),
            state_dir: directory.join("state"),
            mark: directory.join("mark"),
            boot: "this-boot".to_owned(),
            clock: Clock::Boot,
            rest: Duration::ZERO,
        };
        let metrics = AgentMetrics::register(&mut Registry::default()).of("node-1");
        let (agent, _) = Agent::open(&storage, metrics).unwrap();
        agent.apply_nnc(&nnc(count));
        let queue = directory.join("queue");
        std::fs::create_dir_all(&queue).unwrap();
        let drain =
            Drain::new(agent.clone(), vec![Directory::open(&queue, Flavour::Ours).unwrap()]);
        let stopping = CancellationToken::new();
        let socket = directory.join("agent.sock");
        let listener = runtime.block_on(async move {
            drain.once().await.unwrap();
            Listener::bind(&socket).await.unwrap()
        });
        runtime.spawn(listener.serve(router(agent.clone()), stopping.clone()));
        Self {
            agent,
            stopping,
            _runtime: runtime,
        }
    }

    pub fn free(&self) -> usize {
        let lines = self.agent.addresses();
        lines
            .iter()
            .filter(|line| matches!(line.state, AddressState::Free | AddressState::CoolingDown))
            .count()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.stopping.cancel();
    }
}

fn nnc(count: u8) -> NodeNetworkConfig {
    let pair = |n: u8| {
        let name = Uuid::from_u128(0xb0 + u128::from(n));
        let (last, number) = (10 + n, 10 + u16::from(n));
        [
            json!({"name": name.to_string(), "ip": format!("10.64.0.{last}")}),
            json!({"name": lease_name(LeaseOf::Ipv6 { lease: name }).to_string(), "ip": format!("fd64::{number:x}")}),
        ]
    };
    let assignments: Vec<_> = (0..count).flat_map(pair).collect();
    let nnc = json!({
        "apiVersion": "acn.azure.com/v1alpha", "kind": "NodeNetworkConfig",
        "metadata": {"name": "node-1", "namespace": "kube-system", "uid": "u1", "resourceVersion": "1"},
        "spec": {"requestedIPCount": count},
        "status": {"networkContainers": [{
            "id": "nc-1", "primaryIP": "10.64.0.4", "subnetName": "pods", "nodeIP": "192.0.2.1",
            "subnetAddressSpace": "10.64.0.0/16", "defaultGateway": "10.64.0.1",
            "subnetAddressSpaceV6": "fd64::/64", "defaultGatewayV6": "fd64::1",
            "ipAssignments": assignments,
        }]},
    });
    serde_json::from_value(nnc).unwrap()
}
