//! The controller on a real kube-apiserver, under its own role.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use berth_api::names::NAMESPACE;
use berth_routes::backend::memory::Memory;
use berth_routes::controller::{
    self, DEFAULT_MIN_RESYNC_PERIOD, DEFAULT_RECONCILIATION_PERIOD, Options, Publish, RouteMetrics,
};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::json;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// When nothing has moved for so long, nothing will any more.
const STANDSTILL: Duration = Duration::from_secs(120);

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../deploy")
        .join(file)
}

async fn connect(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    Client::try_from(config).unwrap()
}

async fn wait_for(what: &str, mut look: impl AsyncFnMut() -> Result<(), String>) {
    let (mut last, mut changed) = (String::new(), Instant::now());
    loop {
        match look().await {
            Ok(()) => return,
            Err(seen) if seen != last => (last, changed) = (seen, Instant::now()),
            Err(_) => assert!(
                changed.elapsed() < STANDSTILL,
                "in vain: {what}; last seen: {last}"
            ),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn unavailable(nodes: &Api<Node>, name: &str) -> Option<(String, String)> {
    let node = nodes.get(name).await.unwrap();
    let conditions = node
        .status
        .and_then(|status| status.conditions)
        .unwrap_or_default();
    let found = conditions
        .into_iter()
        .find(|one| one.type_ == "NetworkUnavailable");
    found.map(|one| (one.status, one.reason.unwrap_or_default()))
}

async fn becomes(nodes: &Api<Node>, name: &str, status: &str, reason: &str) {
    let wanted = Some((status.to_owned(), reason.to_owned()));
    wait_for(&format!("{name}: {wanted:?}"), async || {
        let found = unavailable(nodes, name).await;
        if found == wanted {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_born_unavailable_until_its_route_is_there() {
    let cluster = berth_testbed::control_plane().unwrap();
    for file in [
        "rbac/controller.yaml",
        "rbac/route.yaml",
        "routes/network-unavailable.yaml",
    ] {
        cluster.apply(&deploy(file)).unwrap();
    }
    let admin = connect(&cluster.kubeconfig()).await;
    let nodes = Api::<Node>::all(admin.clone());
    let create = async |name: &str, cidr: &str, address: &str| {
        let node = json!({
            "metadata": {"name": name},
            "spec": {"podCIDR": cidr, "podCIDRs": [cidr]},
        });
        let node = serde_json::from_value(node).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
        let addresses = json!([{"type": "InternalIP", "address": address}]);
        let patch = Patch::Merge(json!({"status": {"addresses": addresses}}));
        nodes
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    };
    // The policy is in force a moment after it was created.
    let mut round = 0;
    wait_for("nodes are born unavailable", async || {
        round += 1;
        let name = format!("try-{round}");
        create(&name, &format!("10.121.{round}.0/24"), "192.0.2.99").await;
        let found = unavailable(&nodes, &name).await;
        nodes.delete(&name, &DeleteParams::default()).await.unwrap();
        match found {
            Some((status, _)) if status == "True" => Ok(()),
            found => Err(format!("{found:?} in round {round}")),
        }
    })
    .await;

    create("real-1", "10.120.1.0/24", "192.0.2.1").await;
    let kubeconfig = cluster
        .kubeconfig_of_account(NAMESPACE, "berth-controller", None)
        .unwrap();
    let backend = Memory::default();
    let stop = CancellationToken::new();
    let options = Options {
        client: connect(&kubeconfig).await,
        backend: Arc::new(backend.clone()),
        cluster_cidrs: Some(vec!["10.120.0.0/16".parse().unwrap()]),
        watch_based: true,
        reconciliation_period: DEFAULT_RECONCILIATION_PERIOD,
        min_resync_period: DEFAULT_MIN_RESYNC_PERIOD,
        publish: Publish::All,
        metrics: RouteMetrics::unregistered(),
        instance: None,
        seed: None,
        ready: None,
    };
    let run = tokio::spawn(controller::run(options, stop.clone()));
    becomes(&nodes, "real-1", "False", "RouteCreated").await;
    // Outside of the cluster CIDRs: it stays unavailable, and an event says why.
    create("real-2", "10.99.0.0/24", "192.0.2.2").await;
    let events = Api::<Event>::namespaced(admin, "default");
    wait_for("an event about real-2", async || {
        let all = events.list(&ListParams::default()).await.unwrap().items;
        let notes = all.into_iter().filter(|event| {
            event.reason.as_deref() == Some("FailedToCreateRoute")
                && event.regarding.as_ref().and_then(|one| one.name.as_deref()) == Some("real-2")
        });
        let notes: Vec<String> = notes.filter_map(|event| event.note).collect();
        if notes
            .iter()
            .any(|note| note.contains("outside of the cluster CIDRs"))
        {
            Ok(())
        } else {
            Err(format!("{notes:?}"))
        }
    })
    .await;
    becomes(&nodes, "real-2", "True", "NoRouteCreated").await;
    nodes
        .delete("real-1", &DeleteParams::default())
        .await
        .unwrap();
    wait_for("its route goes", async || {
        let left = backend.routes().len();
        if left == 0 {
            Ok(())
        } else {
            Err(format!("{left}"))
        }
    })
    .await;
    stop.cancel();
    run.await.unwrap();
}
