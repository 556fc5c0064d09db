//! The virtual nodes: a directory and an agent for each.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use berth_agent::{AgentContext, AgentMetrics, Digests, Machine, Options, Standing};
use berth_cluster::Fleet;
use berth_kit::events::{EventMetrics, Recorder};
use berth_kit::metrics::Metrics;
use berth_kit::shutdown::Tasks;
use kube::Client;
use kube::runtime::events::Reporter;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use super::directory::Directory;

/// The maximum length of a Unix socket's path, in bytes: the kernel's 108 without the final NUL.
const SOCKET_PATH: usize = 107;

/// The directories of all nodes.
#[derive(Clone, Debug)]
pub struct NodeDirectories {
    home: PathBuf,
}

impl NodeDirectories {
    /// Fails if the socket of a node would have too long a path. Makes nothing yet.
    pub fn choose(directory: &Directory, fleet: Fleet) -> Result<Self> {
        let (home, chosen_by) = directory.nodes();
        let node_directories = Self { home };
        // The last node has the longest name.
        if let Some(node) = fleet.names().last() {
            let socket = node_directories.of(&node).socket();
            let length = socket.as_os_str().len();
            ensure!(
                length <= SOCKET_PATH,
                "{chosen_by}: the nodes' agents listen in it, and {} is {} bytes longer \
                 than a socket's path can be; choose a shorter one",
                socket.display(),
                length.saturating_sub(SOCKET_PATH)
            );
        }
        Ok(node_directories)
    }

    pub fn of(&self, node: &str) -> NodeDirectory {
        NodeDirectory {
            path: self.home.join(node),
        }
    }
}

/// The directory of a node: its agent's socket and state, and the queue of releases that plugins
/// leave.
#[derive(Clone, Debug)]
pub struct NodeDirectory {
    path: PathBuf,
}

impl NodeDirectory {
    pub fn socket(&self) -> PathBuf {
        self.path.join("agent.sock")
    }

    pub fn queue(&self) -> PathBuf {
        self.path.join("release-queue")
    }
}

/// What the agents hold, by node. It exists before they do: the API server needs it.
pub fn digests(fleet: Fleet) -> BTreeMap<String, Digests> {
    fleet.names().map(|node| (node, Digests::default())).collect()
}

/// The agents of all nodes, in this process.
#[derive(Debug)]
pub struct Agents {
    running: TaskTracker,
    ready: BTreeMap<String, watch::Receiver<bool>>,
}

impl Agents {
    /// Agents run until the tasks stop. If one fails, the process ends.
    pub fn start(
        client: &Client,
        fleet: Fleet,
        node_directories: &NodeDirectories,
        digests: &BTreeMap<String, Digests>,
        metrics: &Metrics,
        tasks: &Tasks,
    ) -> Result<Self> {
        let boot = berth_agent::boot_id().context("asking the kernel for the id of this boot")?;
        let reporter = Reporter {
            controller: "berth-agent".to_owned(),
            instance: None,
        };
        let event_metrics = metrics.share(EventMetrics::register);
        let mut random = StdRng::from_rng(&mut rand::rng());
        let names = StdRng::from_rng(&mut random);
        let (events, writer) = Recorder::new(client.clone(), reporter, &event_metrics, names);
        let context = AgentContext {
            client: client.clone(),
            metrics: metrics.register(AgentMetrics::register),
            events,
        };
        let running = TaskTracker::new();
        running.spawn(writer.run(tasks.stopping()));
        let mut ready = BTreeMap::new();
        for node in fleet.names() {
            let options = Options {
                boot: boot.clone(),
                machine: machine(&node),
                ..Options::new(&node, &node_directories.of(&node).path)
            };
            let (serves, when_ready) = watch::channel(false);
            ready.insert(node.clone(), when_ready);
            let random = StdRng::from_rng(&mut random);
            let (context, stopping) = (context.clone(), tasks.stopping());
            let digests = digests.get(&node).cloned().unwrap_or_default();
            let agent = running.track_future(async move {
                let say = move |standing: Standing<'_>| {
                    digests.follow(&standing);
                    serves.send_replace(matches!(standing, Standing::Serves(_)));
                };
                berth_agent::run(options, context, random, say, stopping).await
            });
            tasks.spawn(format!("agent of {node}"), agent);
        }
        running.close();
        Ok(Self { running, ready })
    }

    /// For each node, whether its agent serves.
    pub fn ready(&self) -> BTreeMap<String, watch::Receiver<bool>> {
        self.ready.clone()
    }

    /// Returns once all agents have stopped.
    pub async fn stopped(self) {
        self.running.wait().await;
    }
}

/// What a virtual node reports about its machine: there is only this process.
fn machine(node: &str) -> Machine {
    Machine {
        boot_id: node.to_owned(),
        machine_id: node.to_owned(),
        system_uuid: node.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_directory(length: usize) -> Result<NodeDirectories> {
        let path = format!("/{}", "d".repeat(length - 1));
        let directory = Directory::choose(Some(path.into()), false).unwrap();
        NodeDirectories::choose(&directory, Fleet::new(10).unwrap())
    }

    #[test]
    fn a_data_dir_too_long_for_sockets_is_refused_with_the_fix() {
        let room = SOCKET_PATH - "/nodes/berth-node-10/agent.sock".len();
        in_directory(room).unwrap();
        let refused = in_directory(room + 3).unwrap_err().to_string();
        assert!(refused.starts_with("--data-dir: "), "{refused}");
        assert!(
            refused.contains("3 bytes longer") && refused.contains("choose a shorter one"),
            "{refused}"
        );
    }
}
