//! Any bytes as the body of any call: nothing panics, a repeated request gets the same answer, and
//! no address has two owners.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use berth_agent::{Agent, AgentMetrics, Clock, Storage};
use berth_api::agent::{Check, Gc, Release, Request};
use tokio::runtime::Builder;

fn agent(directory: &Path) -> Agent {
    let storage = Storage {
        node: "n1".to_owned(),
        state_dir: directory.join("state"),
        mark: directory.join("mark"),
        boot: "boot".to_owned(),
        clock: Clock::Boot,
        rest: Duration::ZERO,
    };
    let mut registry = prometheus_client::registry::Registry::default();
    let metrics = AgentMetrics::register(&mut registry);
    let (agent, _) = Agent::open(&storage, metrics.of("n1")).expect("a directory of its own");
    let config = serde_json::json!({
        "apiVersion": "acn.azure.com/v1alpha", "kind": "NodeNetworkConfig",
        "metadata": {"name": "n1", "uid": "u1", "resourceVersion": "1"}, "spec": {},
        "status": {"networkContainers": [{
            "id": "c1", "primaryIP": "10.64.0.250", "subnetAddressSpace": "10.64.0.0/16",
            "ipAssignments": [
                {"name": "00000000-0000-0000-0000-000000000001", "ip": "10.64.0.1"},
                {"name": "00000000-0000-0000-0000-000000000002", "ip": "10.64.0.2"},
            ],
        }]},
    });
    agent.apply_nnc(&serde_json::from_value(config).expect("a config"));
    agent
}

/// Each line is a call: its first byte selects the kind of call, the rest is the body.
pub fn run(data: &[u8]) {
    let directory = tempfile::tempdir().expect("a directory");
    let agent = agent(directory.path());
    let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
    for line in data.split(|byte| *byte == b'\n').take(20) {
        let Some((kind, body)) = line.split_first() else {
            continue;
        };
        match kind % 4 {
            0 => {
                if let Ok(request) = serde_json::from_slice::<Request>(body) {
                    let request = Request { wait_ms: 0, ..request };
                    let first = runtime.block_on(agent.request(request.clone()));
                    if let Ok(first) = first {
                        assert_eq!(
                            runtime.block_on(agent.request(request)).ok(),
                            Some(first),
                            "asked again, the same"
                        );
                    }
                }
            }
            1 => {
                if let Ok(release) = serde_json::from_slice::<Release>(body) {
                    let _ = agent.release(&release);
                }
            }
            2 => {
                if let Ok(check) = serde_json::from_slice::<Check>(body) {
                    let _ = agent.check(&check);
                }
            }
            _ => {
                if let Ok(gc) = serde_json::from_slice::<Gc>(body) {
                    let _ = agent.gc(&gc);
                }
            }
        }
    }
    let held: Vec<_> = agent
        .holdings()
        .into_values()
        .flat_map(|holding| holding.held)
        .collect();
    let addresses: BTreeSet<_> = held.iter().map(|held| held.address).collect();
    assert_eq!(addresses.len(), held.len(), "an address has two owners");
}
