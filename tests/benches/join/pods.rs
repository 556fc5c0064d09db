//! 150,000 pods on the nodes that have joined: how much memory they cost the controller.

use std::time::Duration;

use berth_api::NodeNetworkConfig;
use berth_testbed::Figures;
use kube::ResourceExt;
use serde_json::json;

use crate::NODES;
use crate::controller::{Controller, Store};
use crate::server::{Send, Server};

const PODS_PER_NODE: usize = 30;
/// Two batches, which are enough for the pods of a node.
const REQUESTED: usize = 32;

/// Measures `controller`, then another one that starts when all objects exist.
pub async fn measure(server: &Server, controller: Controller, store: Store, figures: &mut Figures) {
    let nncs = supply(server).await;
    create(server, &nncs).await;
    let label = format!("{}: {NODES} nodes, {} pods", store.label(), NODES * PODS_PER_NODE);
    settle().await;
    let process = controller.process();
    figures.mebibytes(
        &format!("{label}: the controller's memory"),
        process.resident().unwrap(),
    );
    let most = process.most_resident().unwrap();
    figures.mebibytes(&format!("{label}: the controller's memory at most"), most);
    drop(controller);
    let again = Controller::start(server, store).await;
    settle().await;
    let most = again.process().most_resident().unwrap();
    figures.mebibytes(&format!("{label}: that of one started now, at most"), most);
}

/// Gives the controller time to work off its events, and to claim back the nodes' addresses.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(30)).await;
}

/// Every node requests addresses as its agent would, and gets them.
async fn supply(server: &Server) -> Vec<NodeNetworkConfig> {
    let body = json!({"spec": {"requestedIPCount": REQUESTED}}).to_string();
    let path = |n: usize| {
        format!("/apis/acn.azure.com/v1alpha/namespaces/kube-system/nodenetworkconfigs/node-{n:04}")
    };
    let ask = |n| vec![Send::patch(path(n), body.clone())];
    server.send_all((0..NODES).map(ask).collect()).await;
    loop {
        let nncs = server.nncs().await;
        if nncs.iter().all(|nnc| addresses(nnc).count() >= REQUESTED) {
            return nncs;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn addresses(nnc: &NodeNetworkConfig) -> impl Iterator<Item = &str> {
    let containers = nnc.status.iter().flat_map(|status| &status.network_containers);
    containers.flat_map(|container| container.ip_assignments.iter().map(|one| one.ip.as_str()))
}

/// Creates the pods, with the status that kubelets would write.
async fn create(server: &Server, nncs: &[NodeNetworkConfig]) {
    let collection = "/api/v1/namespaces/default/pods";
    let pods = nncs.iter().flat_map(|nnc| {
        let node = nnc.name_any();
        let of_node = addresses(nnc).take(PODS_PER_NODE).enumerate();
        of_node.map(move |(n, address)| {
            let name = format!("web-5f7c9d8b6-{node}-{n:02}");
            let pod = json!({
                "metadata": {"name": name, "labels": {"app": "web", "pod-template-hash": "5f7c9d8b6"}},
                "spec": {"nodeName": node, "containers": [{
                    "name": "main", "image": "registry.example/web:1.27.3",
                    "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                }]},
            });
            let status = json!({"status": {
                "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            }});
            let path = format!("{collection}/{name}/status");
            vec![
                Send::post(&collection.into(), pod.to_string()),
                Send::patch(path, status.to_string()),
            ]
        })
    });
    server.send_all(pods.collect()).await;
}
