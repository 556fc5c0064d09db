//! The whole cluster: process 1, the wire, the control plane, the nodes.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::component::{Component, POLL_INTERVAL};
use crate::control_plane::{ControlPlane, Plan, Storage};
use crate::init::{self, Init};
use crate::node::network::{Network, Seat};
use crate::node::{MAX_NODES, Node, NodeContext, Runtime};
use crate::process::Process;
use crate::programs::Programs;
use crate::registry::{Entry, Registry};
use crate::wire::Wire;
use crate::{image, packages, shell};

type NetworkOf<'a> = Box<dyn Fn(&Seat) -> Network + Sync + 'a>;

/// The settings of a cluster.
pub struct Builder<'a> {
    name: String,
    nodes: u8,
    network: NetworkOf<'a>,
    storage: Storage,
    controllers: bool,
    address: Option<Ipv4Addr>,
    runtime: Runtime,
    max_pods: u32,
    api_flags: Vec<String>,
    manager_flags: Vec<String>,
    environment: Vec<(String, String)>,
    logs: Option<PathBuf>,
    say: &'a dyn Fn(&str),
}

impl std::fmt::Debug for Builder<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("nodes", &self.nodes)
            .finish_non_exhaustive()
    }
}

/// A running cluster. It ends when this is dropped or when this process ends, unless it is
/// detached.
#[derive(Debug)]
pub struct Cluster {
    entry: Entry,
    registry: Registry,
    control_plane: ControlPlane,
    nodes: Vec<Node>,
    /// `None` once the cluster is detached or has ended.
    init: Option<Init>,
}

impl Cluster {
    /// `name` is for people: several clusters can have the same name.
    pub fn named<'a>(name: &str) -> Builder<'a> {
        Builder {
            name: name.to_owned(),
            nodes: 0,
            network: Box::new(Network::ptp),
            storage: Storage::default(),
            controllers: true,
            address: None,
            runtime: Runtime::default(),
            max_pods: 250,
            api_flags: Vec::new(),
            manager_flags: Vec::new(),
            environment: Vec::new(),
            logs: None,
            say: &|_| {},
        }
    }

    pub fn control_plane(&self) -> &ControlPlane {
        &self.control_plane
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.control_plane.kubeconfig()
    }

    /// A kubectl that talks to this cluster.
    pub fn kubectl(&self) -> Command {
        self.control_plane.kubectl()
    }

    /// Applies a file of objects as an administrator.
    pub fn apply(&self, file: &Path) -> Result<()> {
        shell::run(self.kubectl().args(["apply", "--filename"]).arg(file)).map(drop)
    }

    /// Writes a kubeconfig for a ServiceAccount to the cluster's directory. `bound` is the kind and
    /// name of a Pod in the account's namespace, or of a Node. The token is then bound to that
    /// object and names its node.
    pub fn kubeconfig_of_account(
        &self,
        namespace: &str,
        account: &str,
        bound: Option<(&str, &str)>,
    ) -> Result<PathBuf> {
        let mut command = self.kubectl();
        command.args(["create", "token", account, "--namespace", namespace, "--duration=24h"]);
        let mut parts = vec![namespace, account];
        if let Some((kind, name)) = bound {
            command.args(["--bound-object-kind", kind, "--bound-object-name", name]);
            parts.extend([kind, name]);
        }
        let token = shell::run(&mut command)
            .with_context(|| format!("a token for {namespace}/{account}"))?;
        self.control_plane.write_kubeconfig(&parts.join("-"), token.trim())
    }

    /// Starts another process beside the control plane, on the host's network. It ends with the
    /// cluster.
    pub fn start_component(
        &self,
        name: &str,
        program: &Path,
        flags: &[String],
    ) -> Result<Component> {
        self.control_plane
            .start_component(self.process_1()?, name, program, flags)
    }

    /// Starts another kube-scheduler, with this KubeSchedulerConfiguration.
    pub fn start_scheduler(&self, name: &str, configuration: &str) -> Result<Component> {
        self.control_plane
            .start_scheduler(self.process_1()?, name, configuration)
    }

    fn process_1(&self) -> Result<&Process> {
        self.init
            .as_ref()
            .map(Init::process)
            .context("the cluster is not ours any more")
    }

    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn nodes_mut(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    pub fn logs(&self) -> &Path {
        self.control_plane.logs()
    }

    /// Adds to every node a route to the pods of each other node.
    pub fn route_pods(&self) -> Result<()> {
        for node in &self.nodes {
            for other in self.nodes.iter().filter(|other| other.name() != node.name()) {
                let route = format!("route replace {} via {}", other.seat().pods, other.address());
                shell::run(node.command("ip").args(route.split(' ')))?;
            }
        }
        Ok(())
    }

    /// From now on the cluster outlives this process, until [`Registry::remove`].
    pub fn detach(mut self) -> Result<()> {
        // The record is written first: otherwise a crash in between would leave a cluster without
        // an owner.
        self.entry.record.detached = true;
        let nodes = self.nodes.iter();
        self.entry.record.nodes = nodes
            .map(|node| (node.name().to_owned(), node.init().clone()))
            .collect();
        self.entry.write()?;
        match self.init.take() {
            Some(init) => init.detach(),
            None => Ok(()),
        }
    }

    /// Ends the cluster, and returns when nothing is left.
    pub fn down(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        match self.init.take() {
            Some(init) => end(init, &self.registry, &self.entry),
            None => Ok(()),
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("taking down the cluster {}: {error:#}", self.entry.record.name);
        }
    }
}

fn end(mut init: Init, registry: &Registry, entry: &Entry) -> Result<()> {
    // Kills process 1, which is faster than waiting until it reads the end of its pipe.
    registry.remove(entry)?;
    init.end()
}

impl<'a> Builder<'a> {
    pub fn nodes(mut self, nodes: u8) -> Self {
        self.nodes = nodes;
        self
    }

    /// The network of each node; the default is `ptp` with `host-local`.
    pub fn network(mut self, network: impl Fn(&Seat) -> Network + Sync + 'a) -> Self {
        self.network = Box::new(network);
        self
    }

    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// Only etcd and kube-apiserver run.
    pub fn without_controllers(mut self) -> Self {
        self.controllers = false;
        self
    }

    /// The address where the API is served; the default is loopback or, with nodes, the host's end
    /// of the wire. At the host's end of another cluster's wire, the nodes and pods of that cluster
    /// reach the API.
    pub fn address(mut self, address: Ipv4Addr) -> Self {
        self.address = Some(address);
        self
    }

    /// The container runtime of the nodes; the default is Debian's containerd.
    pub fn runtime(mut self, runtime: Runtime) -> Self {
        self.runtime = runtime;
        self
    }

    /// How many pods each node takes; the default is 250.
    pub fn max_pods(mut self, max_pods: u32) -> Self {
        self.max_pods = max_pods;
        self
    }

    /// One more flag for kube-apiserver.
    pub fn api_flag(mut self, flag: &str) -> Self {
        self.api_flags.push(flag.to_owned());
        self
    }

    /// One more flag for kube-controller-manager.
    pub fn manager_flag(mut self, flag: &str) -> Self {
        self.manager_flags.push(flag.to_owned());
        self
    }

    /// One more environment variable for each process of the control plane.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The directory of the components' logs; the default is the cluster's own directory, which is
    /// removed with it.
    pub fn logs(mut self, directory: PathBuf) -> Self {
        self.logs = Some(directory);
        self
    }

    /// `say` gets a line about each step.
    pub fn say(mut self, say: &'a dyn Fn(&str)) -> Self {
        self.say = say;
        self
    }

    /// Returns when all nodes are ready and pods can be created. If it fails, everything that it
    /// started ends.
    pub fn start(self) -> Result<Cluster> {
        ensure!(
            self.nodes <= MAX_NODES,
            "nodes: {} are too many for one machine, the maximum is {MAX_NODES}",
            self.nodes
        );
        ensure!(
            self.nodes == 0 || self.controllers,
            "nodes: they need controllers and a scheduler"
        );
        let programs = Programs::find()?;
        if self.nodes > 0 {
            ensure!(
                init::is_root(),
                "nodes: they need namespaces and links, which only root can make"
            );
            programs.need(&["kubelet"])?;
            packages::install(self.say)?;
        }
        let registry = Registry::open()?;
        let mut entry = registry.add(&self.name, self.nodes > 0)?;
        let init = Init::start(&entry.directory, &entry.record.groups, self.nodes > 0)?;
        entry.record.init = Some(init.process().clone());
        if let Some(logs) = &self.logs {
            entry.record.logs.clone_from(logs);
        }
        entry.write()?;
        match self.start_components(&programs, init.process(), &entry) {
            Ok((control_plane, nodes)) => Ok(Cluster {
                entry,
                registry,
                control_plane,
                nodes,
                init: Some(init),
            }),
            Err(error) => {
                end(init, &registry, &entry).context("taking down what was started")?;
                Err(error)
            }
        }
    }

    fn start_components(
        &self,
        programs: &Programs,
        init: &Process,
        entry: &Entry,
    ) -> Result<(ControlPlane, Vec<Node>)> {
        let start = Instant::now();
        let seconds = || format!("{:.1} s", start.elapsed().as_secs_f64());
        let wire = entry.record.wire.map(Wire::new);
        let seats: Vec<Seat> = match wire {
            Some(wire) => (1..=self.nodes).map(|number| seat(wire, number)).collect(),
            None => Vec::new(),
        };
        let names: Vec<String> = seats.iter().map(|seat| seat.node.clone()).collect();
        let logs = &entry.record.logs;
        if let Some(wire) = wire {
            wire.create(init)?;
        }
        let plan = Plan {
            storage: self.storage,
            controllers: self.controllers,
            api_flags: self.api_flags.clone(),
            manager_flags: self.manager_flags.clone(),
            environment: self.environment.clone(),
            address: self
                .address
                .unwrap_or_else(|| wire.map_or(Ipv4Addr::LOCALHOST, Wire::host)),
            directory: entry.directory.clone(),
            logs: logs.clone(),
        };
        let control_plane = ControlPlane::start(programs, init, &names, plan)?;
        (self.say)(&format!("the control plane is ready after {}", seconds()));
        let Some(wire) = wire else {
            return Ok((control_plane, Vec::new()));
        };

        let image = image::write(&entry.directory)?;
        let context = NodeContext {
            init,
            wire,
            control_plane: &control_plane,
            programs,
            image: &image,
            runtime: self.runtime,
            max_pods: self.max_pods,
            directory: &entry.directory,
            logs,
            groups: &entry.record.groups,
        };
        // The nodes start together: most of their start is waiting.
        let network = &self.network;
        let started: Vec<Result<Node>> = std::thread::scope(|scope| {
            let start = |seat: Seat| {
                scope.spawn(move || Node::start(seat.clone(), &network(&seat), context))
            };
            let starting: Vec<_> = seats.into_iter().map(start).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Node>>| {
                thread
                    .join()
                    .unwrap_or_else(|_| Err(anyhow::anyhow!("starting a node panicked")))
            };
            starting.into_iter().map(join).collect()
        });
        let mut nodes = started.into_iter().collect::<Result<Vec<Node>>>()?;
        self.wait_for_nodes(&control_plane, &mut nodes)?;
        (self.say)(&format!("{} nodes are there after {}", nodes.len(), seconds()));
        Ok((control_plane, nodes))
    }

    /// Waits until the nodes are Ready, or only registered if they have no pod network yet.
    fn wait_for_nodes(&self, control_plane: &ControlPlane, nodes: &mut [Node]) -> Result<()> {
        let names: Vec<String> = nodes.iter().map(|node| node.name().to_owned()).collect();
        // kubectl can wait for the creation of one object, but not of several.
        for name in &names {
            wait(control_plane, nodes, "--for=create", &[name])?;
        }
        let has_network = nodes
            .iter()
            .all(|node| (self.network)(node.seat()).configuration.is_some());
        if has_network {
            let names: Vec<&String> = names.iter().collect();
            wait(control_plane, nodes, "--for=condition=Ready", &names)?;
        }
        Ok(())
    }
}

/// Waits with kubectl for a condition of the named nodes. Fails as soon as a component of any node
/// ends.
fn wait(
    control_plane: &ControlPlane,
    nodes: &mut [Node],
    condition: &str,
    names: &[&String],
) -> Result<()> {
    let mut command = control_plane.kubectl();
    command.args(["wait", condition, "--timeout=180s", "node"]).args(names);
    let mut kubectl = command.stdout(Stdio::null()).spawn().context("starting kubectl")?;
    let status = loop {
        if let Some(status) = kubectl.try_wait()? {
            break status;
        }
        if let Err(error) = nodes.iter_mut().try_for_each(Node::check) {
            kubectl.kill()?;
            kubectl.wait()?;
            return Err(error);
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    let logs = control_plane.logs().display();
    ensure!(status.success(), "nodes did not come up; see {logs}");
    Ok(())
}

fn seat(wire: Wire, number: u8) -> Seat {
    Seat {
        node: format!("node-{number}"),
        number,
        address: wire.node(number),
        address_v6: wire.node_v6(number),
        pods: format!("10.244.{number}.0/24"),
    }
}
