//! The objects of a large cluster: Nodes, what each has in the ledger and in its NodeNetworkConfig,
//! and pods.

use std::sync::Arc;
use std::time::Duration;

use berth_addr::Plan;
use berth_api::NodeNetworkConfig;
use berth_api::names::NAMESPACE;
use berth_ledger::store::KubernetesStore;
use berth_ledger::{Clock, Ledger, LedgerMetrics};
use berth_nodenet::allocator::local::LocalAllocator;
use berth_nodenet::allocator::{Allocator, Container, ContainerRef, Registry, Update};
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use uuid::Uuid;

pub const NODES: usize = 5_000;
const PER_NODE: usize = 200;
const PODS_PER_NODE: usize = 10;
pub const CIDR: &str = "10.64.0.0/12";

/// How many nodes are filled at the same time.
const CONCURRENCY: usize = 64;

/// Returns how many addresses have an owner.
pub async fn fill(client: &Client) -> usize {
    let store = Arc::new(KubernetesStore::new(client.clone()));
    let ledger = Ledger::new(store, Clock::system(), LedgerMetrics::unregistered());
    let allocator = LocalAllocator::new(ledger);
    let plan = Plan {
        cidrs: vec![CIDR.parse().unwrap()],
        ..Plan::default()
    };
    allocator.set_subnet("pods", &plan, Duration::ZERO).await.unwrap();
    let filled = stream::iter(0..NODES).map(|number| fill_node(client, &allocator, number));
    let counts: Vec<usize> = filled.buffer_unordered(CONCURRENCY).collect().await;
    counts.into_iter().sum()
}

async fn fill_node(client: &Client, allocator: &LocalAllocator, number: usize) -> usize {
    let name = format!("node-{number:04}");
    let node = Api::<Node>::all(client.clone());
    let made = json!({
        "metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    });
    let made: Node = serde_json::from_value(made).unwrap();
    let made = node.create(&PostParams::default(), &made).await.unwrap();
    let container = ContainerRef {
        cluster: "bench".to_owned(),
        node: name.clone(),
        uid: made.metadata.uid.unwrap(),
    };
    allocator.create("pods", &container).await.unwrap();
    let update = Update {
        request: Uuid::new_v4(),
        count: PER_NODE,
        give_back: Vec::new(),
    };
    let given = allocator.update("pods", &container, update).await.unwrap();
    list(client, &name, &given).await;
    for (number, address) in given.secondaries.iter().take(PODS_PER_NODE).enumerate() {
        run_pod(client, &name, number, &ip(&address.units[0])).await;
    }
    given.secondaries.len() + given.primary.len()
}

/// Writes the NodeNetworkConfig.
async fn list(client: &Client, node: &str, given: &Container) {
    let api = Api::<NodeNetworkConfig>::namespaced(client.clone(), NAMESPACE);
    let object = json!({
        "apiVersion": "acn.azure.com/v1alpha", "kind": "NodeNetworkConfig",
        "metadata": {"name": node}, "spec": {"requestedIPCount": PER_NODE},
    });
    let object: NodeNetworkConfig = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap();
    let listed: Vec<Value> = given
        .secondaries
        .iter()
        .map(|lease| json!({"name": lease.id, "ip": ip(&lease.units[0])}))
        .collect();
    let status = json!({"status": {
        "assignedIPCount": PER_NODE,
        "networkContainers": [{
            "id": given.id, "primaryIP": ip(&given.primary[0]), "subnetName": "pods",
            "subnetAddressSpace": CIDR, "ipAssignments": listed,
        }],
    }});
    let (params, patch) = (PatchParams::default(), Patch::Merge(status));
    api.patch_status(node, &params, &patch).await.unwrap();
}

async fn run_pod(client: &Client, node: &str, number: usize, address: &str) {
    let api = Api::<Pod>::default_namespaced(client.clone());
    let name = format!("web-{node}-{number}");
    let pod = json!({
        "metadata": {"name": name},
        "spec": {"nodeName": node, "containers": [{"name": "c", "image": "nginx"}]},
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    api.create(&PostParams::default(), &pod).await.unwrap();
    let status = json!({"status": {
        "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
    }});
    let (params, patch) = (PatchParams::default(), Patch::Merge(status));
    api.patch_status(&name, &params, &patch).await.unwrap();
}

fn ip(unit: &berth_addr::Prefix) -> String {
    unit.first().to_string()
}
