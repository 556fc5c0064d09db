//! A node: its own namespaces, containerd and kubelet. Programs in it see a machine of their own:
//! `/etc`, `/opt`, `/run`, `/var/lib` and `/var/log` are private, so that every file can be at its
//! default path on every node.

pub mod cgroups;
mod containerd;
mod kubelet;
pub mod network;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::component::Component;
use crate::control_plane::ControlPlane;
use crate::init;
use crate::process::Process;
use crate::programs::Programs;
use crate::wire::Wire;
use cgroups::Groups;
use network::{Network, Seat};

pub use containerd::Runtime;

const SCRIPT: &str = include_str!("node/init.sh");

/// The kernel's 128 inotify instances run out first: a node takes seven of them.
pub const MAX_NODES: u8 = 16;

/// What all nodes of a cluster share.
#[derive(Clone, Copy, Debug)]
pub struct NodeContext<'a> {
    pub init: &'a Process,
    pub wire: Wire,
    pub control_plane: &'a ControlPlane,
    pub programs: &'a Programs,
    /// The archive with the images of pods.
    pub image: &'a Path,
    pub runtime: Runtime,
    /// The kubelet's `maxPods`.
    pub max_pods: u32,
    /// The cluster's own directory.
    pub directory: &'a Path,
    pub logs: &'a Path,
    pub groups: &'a [PathBuf],
}

/// A running node. It ends with its cluster.
#[derive(Debug)]
pub struct Node {
    seat: Seat,
    directory: PathBuf,
    logs: PathBuf,
    groups: Groups,
    runtime: Runtime,
    init: Process,
    /// The `nsenter` that waits for process 1.
    _outer: Child,
    containerd: Component,
    kubelet: Component,
}

impl Node {
    /// Returns when the kubelet runs. The node may become Ready later.
    pub fn start(seat: Seat, network: &Network, context: NodeContext) -> Result<Self> {
        let name = seat.node.clone();
        let started = || -> Result<Self> {
            let directory = context.directory.join("nodes").join(&seat.node);
            let logs = context.logs.join(&seat.node);
            std::fs::create_dir_all(&logs)?;
            lay_out(&directory, &network.plugins)?;
            let groups = Groups::make(context.groups, &seat.node)?;
            let (outer, init) = process_1(&directory, &seat, &groups, context)?;
            configure(&directory, &seat, context)?;
            if let Some(configuration) = &network.configuration {
                configure_network(&directory, configuration)?;
            }
            context.wire.connect(context.init, seat.number, &init)?;
            groups.move_processes_to_leaf()?;

            let runtime = context.runtime;
            let mut command = command(&groups, &init, "env");
            command.arg(runtime.path_variable()?);
            command.args(["containerd", "--config", "/etc/containerd/config.toml"]);
            let mut containerd = Component::start("containerd", command, &logs)?;
            let socket = directory.join("run/containerd/containerd.sock");
            containerd.wait_until(|| socket.exists())?;
            import(&groups, &init, runtime, context.image)?;

            let mut command = self::command(&groups, &init, "/opt/kubernetes/kubelet");
            command.args(kubelet::flags(&seat));
            let kubelet = Component::start("kubelet", command, &logs)?;
            Ok(Self {
                seat,
                directory,
                logs,
                groups,
                runtime,
                init,
                _outer: outer,
                containerd,
                kubelet,
            })
        };
        started().with_context(|| format!("starting {name}"))
    }

    pub fn name(&self) -> &str {
        &self.seat.node
    }

    pub fn address(&self) -> Ipv4Addr {
        self.seat.address
    }

    pub fn seat(&self) -> &Seat {
        &self.seat
    }

    /// Process 1 of the node: a process in its namespaces is on the node.
    pub fn init(&self) -> &Process {
        &self.init
    }

    /// Runs a program on the node.
    pub fn command(&self, program: impl AsRef<Path>) -> Command {
        command(&self.groups, &self.init, program)
    }

    /// Runs `work` in the node's network. A socket that it opens stays in that network, no matter
    /// which thread uses it later.
    pub fn on_network<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let path = format!("/proc/{}/ns/net", self.init.pid());
        let namespace = File::open(&path).with_context(|| format!("opening {path}"))?;
        // A thread has its own network namespace, and this thread ends with the work.
        let there = || -> Result<T> {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .with_context(|| format!("entering the network of {}", self.seat.node))?;
            work()
        };
        let done = std::thread::scope(|scope| scope.spawn(there).join());
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Runs a program on the node until it or the cluster ends. Its output goes to the node's logs.
    pub fn start_component(&self, name: &str, command: Command) -> Result<Component> {
        Component::start(name, command, &self.logs)
    }

    /// Imports the images of an archive into the node.
    pub fn import(&self, archive: &Path) -> Result<()> {
        import(&self.groups, &self.init, self.runtime, archive)
            .with_context(|| format!("on {}", self.seat.node))
    }

    pub fn containerd(&self) -> Result<Process> {
        self.containerd.process()
    }

    pub fn kubelet(&self) -> Result<Process> {
        self.kubelet.process()
    }

    /// Restarts the kubelet, as an upgrade does. The node's pods keep running.
    pub fn restart_kubelet(&mut self) -> Result<()> {
        let process = self.kubelet.process()?;
        process.terminate()?;
        process.wait()?;
        let mut command = self::command(&self.groups, &self.init, "/opt/kubernetes/kubelet");
        command.args(kubelet::flags(&self.seat));
        self.kubelet = Component::start("kubelet", command, &self.logs)?;
        Ok(())
    }

    /// Fails if containerd or the kubelet has ended; the error has the last lines of its log.
    pub fn check(&mut self) -> Result<()> {
        let checked = self.containerd.check().and_then(|()| self.kubelet.check());
        checked.with_context(|| format!("on {}", self.seat.node))
    }

    /// The path on the host of a file in the node's `/etc`, `/opt`, `/run`, `/var/lib` or
    /// `/var/log`.
    pub fn path(&self, on_node: &str) -> PathBuf {
        self.directory.join(on_node.trim_start_matches('/'))
    }

    /// Writes or replaces the node's CNI configuration.
    pub fn configure_network(&self, configuration: &str) -> Result<()> {
        configure_network(&self.directory, configuration)
    }
}

/// Makes the directories and files that the node's mounts need. The node has its own plugin
/// directory, so that a test can add plugins.
fn lay_out(directory: &Path, plugins: &Path) -> Result<()> {
    for place in [
        "etc",
        "opt/cni/bin",
        "opt/kubernetes",
        "run",
        "sysctl",
        "var/lib",
        "var/log",
    ] {
        let place = directory.join(place);
        std::fs::create_dir_all(&place).with_context(|| format!("making {}", place.display()))?;
    }
    for (name, value) in kubelet::SYSCTLS {
        std::fs::write(directory.join("sysctl").join(name), format!("{value}\n"))?;
    }
    let read = std::fs::read_dir(plugins);
    for plugin in
        read.with_context(|| format!("reading the plugin directory {}", plugins.display()))?
    {
        let plugin = plugin?;
        let path = plugin.path().canonicalize()?;
        symlink(path, directory.join("opt/cni/bin").join(plugin.file_name()))?;
    }
    Ok(())
}

/// Writes the node's own files, after process 1 has put the machine's files in place.
fn configure(directory: &Path, seat: &Seat, context: NodeContext) -> Result<()> {
    let control_plane = context.control_plane;
    let files = [
        ("containerd/config.toml", context.runtime.configuration()),
        ("kubernetes/ca.crt", control_plane.ca().to_owned()),
        (
            "kubernetes/kubelet.json",
            kubelet::configuration(seat, context.max_pods).to_string(),
        ),
        ("kubernetes/kubelet.kubeconfig", control_plane.kubeconfig_of(&seat.node)),
    ];
    for (name, content) in files {
        let path = directory.join("etc").join(name);
        let parent = path.parent().context("a file without a directory")?;
        std::fs::create_dir_all(parent)
            .and_then(|()| std::fs::write(&path, content))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(())
}

/// containerd notices a file that is renamed inside the directory, but not one that is moved into
/// it.
fn configure_network(directory: &Path, configuration: &str) -> Result<()> {
    let directory = directory.join("etc/cni/net.d");
    let next = directory.join(".next");
    std::fs::create_dir_all(&directory)
        .and_then(|()| std::fs::write(&next, configuration))
        .and_then(|()| std::fs::rename(&next, directory.join("10-pods.conflist")))
        .with_context(|| format!("writing a CNI configuration to {}", directory.display()))
}

fn process_1(
    directory: &Path,
    seat: &Seat,
    groups: &Groups,
    context: NodeContext,
) -> Result<(Child, Process)> {
    let mut command = groups.command();
    let enter = init::enter(context.init);
    command.arg(enter.get_program()).args(enter.get_args());
    command.args(
        "unshare --net --mount --uts --ipc --pid --cgroup --fork --kill-child --mount-proc"
            .split(' '),
    );
    command.args(["sh", "-c", SCRIPT, "init"]);
    command.arg(directory).arg(&seat.node).arg(context.programs.directory());
    command.arg(cgroups::remounts()?).process_group(0);
    let log = context.logs.join(&seat.node).join("init.log");
    let said = std::fs::File::create(&log).with_context(|| format!("opening {}", log.display()))?;
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(said);
    let mut outer = command.spawn().context("starting nsenter and unshare")?;
    let mut line = String::new();
    let stdout = outer.stdout.take().context("process 1 has no output")?;
    BufReader::new(stdout).read_line(&mut line)?;
    ensure!(
        line == "ready\n",
        "its process 1 ended: {}",
        std::fs::read_to_string(&log).unwrap_or_default().trim()
    );
    let init = Process::find(outer.id()).context("process 1 has ended")?;
    // The order is nsenter, unshare, shell; the shell has a child by now.
    let init = init.children().into_iter().next().context("nsenter has ended")?;
    let init = init.children().into_iter().next().context("unshare has ended")?;
    Ok((outer, init))
}

fn command(groups: &Groups, init: &Process, program: impl AsRef<Path>) -> Command {
    let mut command = groups.command();
    command.arg("nsenter").arg(format!("--target={}", init.pid()));
    command.args(["--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--"]);
    command.arg(program.as_ref());
    command.stdin(Stdio::null()).process_group(0);
    command
}

/// The archive goes through stdin: the node may not see the file.
fn import(groups: &Groups, init: &Process, runtime: Runtime, image: &Path) -> Result<()> {
    let archive =
        || std::fs::File::open(image).with_context(|| format!("opening {}", image.display()));
    // The socket exists shortly before its service answers.
    let mut last = String::new();
    for _ in 0..100 {
        let mut command = command(groups, init, "env");
        command.arg(runtime.path_variable()?);
        command.args([
            "ctr",
            "--namespace=k8s.io",
            "images",
            "import",
            "--snapshotter=overlayfs",
            "-",
        ]);
        let output = command.stdin(archive()?).output().context("starting ctr")?;
        if output.status.success() {
            return Ok(());
        }
        last = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        std::thread::sleep(crate::component::POLL_INTERVAL);
    }
    anyhow::bail!("containerd did not import {}: {last}", image.display())
}
