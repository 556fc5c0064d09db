//! The scene of a test: a cluster of its own, a client, and a directory of logs for people to read
//! when the test fails.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use berth_testbed::{Builder, Cluster, Node};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

/// The cluster ends when this is dropped; the logs stay in `target/e2e/<test>`.
pub struct Scene {
    pub cluster: Cluster,
    pub client: Client,
}

impl std::fmt::Debug for Scene {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scene")
            .field("cluster", &self.cluster)
            .finish_non_exhaustive()
    }
}

impl Scene {
    pub async fn open(
        test: &str,
        cluster: impl FnOnce(Builder<'static>) -> Builder<'static>,
    ) -> Result<Self> {
        let logs = berth_testbed::logs_of(test)?;
        let cluster = cluster(Cluster::named(test).logs(logs)).start()?;
        let client = connect(&cluster.kubeconfig()).await?;
        Ok(Self { cluster, client })
    }

    pub fn node(&self, name: &str) -> Result<&Node> {
        let node = self.cluster.nodes().iter().find(|node| node.name() == name);
        node.with_context(|| format!("there is no node {name}"))
    }

    /// The warnings among the cluster's events. All pods and events are written to the test's logs.
    pub async fn report(&self) -> Result<String> {
        let all = ListParams::default();
        let pods = Api::<Pod>::all(self.client.clone()).list(&all).await?.items;
        let events = Api::<Event>::all(self.client.clone()).list(&all).await?.items;
        let logs = self.cluster.logs();
        write_json(&logs.join("pods.json"), &pods)?;
        write_json(&logs.join("events.json"), &events)?;
        let warnings = events.iter().filter(|event| event.type_.as_deref() == Some("Warning"));
        let mut lines: Vec<String> = warnings.map(line).collect();
        lines.sort();
        lines.dedup();
        // The rest is in `events.json`.
        lines.truncate(20);
        lines.push(format!("more in {}", logs.display()));
        Ok(lines.join("\n"))
    }
}

fn line(event: &Event) -> String {
    let object = &event.involved_object;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    format!(
        "{} {}: {}: {}",
        text(&object.kind),
        text(&object.name),
        text(&event.reason),
        text(&event.message)
    )
}

fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<()> {
    let mut file =
        std::fs::File::create(path).with_context(|| format!("writing {}", path.display()))?;
    serde_json::to_writer_pretty(&mut file, value)?;
    Ok(file.flush()?)
}

/// A client for the user of the kubeconfig.
pub async fn connect(kubeconfig: &Path) -> Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
