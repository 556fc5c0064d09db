//! The virtual nodes' own side: a directory and an agent for each.

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

/// The longest path that a Unix socket can have, in bytes: the kernel's 108 without its end.
const SOCKET_PATH: usize = 107;

/// Where the nodes have their directories.
#[derive(Clone, Debug)]
pub struct NodeDirectories {
    home: PathBuf,
}

impl NodeDirectories {
    /// Refused when the socket of a node would not fit. Nothing is made yet.
    pub fn choose(directory: &Directory, fleet: Fleet) -> Result<Self> {
        let (home, chosen_by) = directory.nodes();
        let node_directories = Self { home };
        // The last has the longest name.
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

/// A node's: where its agent listens, keeps its state, and finds what plugins leave.
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

/// What the agents hold, by node. There before they are: the API server is asked for it.
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
    /// They run until the tasks are asked to stop. One that can't go on ends the process.
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

    /// Ends once all have.
    pub async fn stopped(self) {
        self.running.wait().await;
    }
}

/// What a virtual node says that it is: there is no machine behind it but this process.
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
    fn a_directory_whose_sockets_would_not_fit_is_refused_with_what_to_do() {
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
