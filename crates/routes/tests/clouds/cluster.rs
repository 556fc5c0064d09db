//! The embedded API with nodes, and controllers that come and go.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use berth_addr::Prefix;
use berth_apiserver::{Options as ServerOptions, Server};
use berth_routes::backend::Backend;
use berth_routes::controller::{
    self, DEFAULT_MIN_RESYNC_PERIOD, DEFAULT_RECONCILIATION_PERIOD, Options, Publish, RouteMetrics,
};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// When nothing has moved for so long, nothing will any more.
const STANDSTILL: Duration = Duration::from_secs(120);

pub struct Cluster {
    server: Server,
    client: Client,
}

pub struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Running {
    pub async fn stop(self) {
        self.stop.cancel();
        self.task.await.unwrap();
    }

    /// Wherever it is.
    pub fn kill(self) {
        self.task.abort();
    }
}

impl Cluster {
    pub async fn open() -> Self {
        let server = Server::open(ServerOptions::default()).await.unwrap();
        let client = server.client();
        Self { server, client }
    }

    pub async fn close(self) {
        self.server.stop().await;
    }

    pub fn start(&self, backend: Arc<dyn Backend>, cidr: &str) -> Running {
        let options = Options {
            client: self.client.clone(),
            backend,
            cluster_cidrs: Some(vec![cidr.parse::<Prefix>().unwrap()]),
            watch_based: true,
            reconciliation_period: DEFAULT_RECONCILIATION_PERIOD,
            min_resync_period: DEFAULT_MIN_RESYNC_PERIOD,
            publish: Publish::All,
            metrics: RouteMetrics::unregistered(),
            instance: None,
            seed: None,
            ready: None,
        };
        let stop = CancellationToken::new();
        let task = tokio::spawn(controller::run(options, stop.clone()));
        Running { stop, task }
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.client.clone())
    }

    pub async fn node(&self, name: &str, cidr: &str, address: &str, provider_id: &str) {
        let node = json!({
            "metadata": {"name": name},
            "spec": {"podCIDRs": [cidr], "podCIDR": cidr, "providerID": provider_id},
        });
        let node = serde_json::from_value(node).unwrap();
        self.nodes()
            .create(&PostParams::default(), &node)
            .await
            .unwrap();
        let addresses = json!([{"type": "InternalIP", "address": address}]);
        let patch = Patch::Merge(json!({"status": {"addresses": addresses}}));
        self.nodes()
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    pub async fn delete(&self, name: &str) {
        self.nodes()
            .delete(name, &DeleteParams::default())
            .await
            .unwrap();
    }

    /// The status of `NetworkUnavailable`.
    pub async fn unavailable(&self, name: &str) -> Option<String> {
        let node = self.nodes().get(name).await.unwrap();
        let conditions = node
            .status
            .and_then(|status| status.conditions)
            .unwrap_or_default();
        let found = conditions
            .into_iter()
            .find(|one| one.type_ == "NetworkUnavailable");
        found.map(|one| one.status)
    }

    pub async fn unavailable_is(&self, name: &str, status: &str) {
        wait_for(
            &format!("{name}: NetworkUnavailable={status}"),
            async || {
                let found = self.unavailable(name).await;
                if found.as_deref() == Some(status) {
                    Ok(())
                } else {
                    Err(format!("{found:?}"))
                }
            },
        )
        .await;
    }
}

/// Looks until it is so; gives up only when what is seen stays the same for too long.
pub async fn wait_for(what: &str, mut look: impl AsyncFnMut() -> Result<(), String>) {
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

/// `destination by hop`, sorted.
pub async fn table_is(mut table: impl FnMut() -> BTreeSet<String>, wanted: &[String]) {
    let wanted: BTreeSet<String> = wanted.iter().cloned().collect();
    wait_for("the table is as wanted", async || {
        let found = table();
        if found == wanted {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
}
