//! `berth agent`: a node's pool of addresses, and the API for plugins.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use berth_agent::install::{Conf, DEFAULT_BIN_DIR, DEFAULT_CONF_DIR, Directories, Portmap, Source};
use berth_agent::{AgentContext, AgentMetrics, Clock, Digests, Machine, Options, Standing};
use berth_api::names::{DEFAULT_QUEUE_DIR, DEFAULT_SOCKET, DEFAULT_STATE_DIR};
use berth_kit::admin::Admin;
use berth_kit::args::CommonArgs;
use berth_kit::events::{EventMetrics, Recorder};
use berth_kit::health::Readiness;
use berth_kit::metrics::Metrics;
use berth_kit::shutdown::Shutdown;
use kube::runtime::events::Reporter;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tracing::warn;

use super::duration;
use super::routes::{ClusterCidrs, RouteSettings};

/// Work that is under way at the signal to stop gets this long.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// How long ADDs wait for an agent that is being updated: even a busy kubelet starts the agent's
/// pod in that time, and it waits several times as long for a runtime.
const RECONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// The socket of containerd, on every distribution.
const CONTAINERD: &str = "/run/containerd/containerd.sock";

/// Run a node's agent: it keeps a pool of addresses on the node and hands them to the CNI plugins
#[derive(Debug, clap::Args)]
pub struct Agent {
    /// The node's name in the cluster [default: the machine's host name]
    #[arg(long, env = "BERTH_NODE_NAME", value_name = "NAME")]
    node_name: Option<String>,
    /// Where plugins call: a Unix socket, for root and the agent's own user
    #[arg(long, env = "BERTH_SOCKET", value_name = "FILE", default_value = DEFAULT_SOCKET)]
    socket: PathBuf,
    /// Where the journal is kept
    #[arg(long, env = "BERTH_STATE_DIR", value_name = "DIR", default_value = DEFAULT_STATE_DIR)]
    state_dir: PathBuf,
    /// Where plugins leave releases while no agent answers
    #[arg(long, env = "BERTH_QUEUE_DIR", value_name = "DIR", default_value = DEFAULT_QUEUE_DIR)]
    queue_dir: PathBuf,
    /// Where the agents of this machine see that a node has one already; the same for all of them
    /// [default: /run/berth, for users other than root berth in XDG_RUNTIME_DIR or in the directory
    /// for temporary files]
    #[arg(long, env = "BERTH_LOCK_DIR", value_name = "DIR")]
    lock_dir: Option<PathBuf>,
    /// Also speak Azure CNS's REST on this loopback address, for plugins made for it; off by
    /// default
    #[arg(long, env = "BERTH_COMPAT_LISTEN", value_name = "ADDR")]
    compat_listen: Option<SocketAddr>,
    /// Also drain the release queue that those plugins write, /var/run/azure-vnet/deleteIDs for
    /// example; off by default
    #[arg(long, env = "BERTH_COMPAT_QUEUE_DIR", value_name = "DIR")]
    compat_queue_dir: Option<PathBuf>,
    /// The container runtime's CRI socket, to find addresses whose sandbox is gone; off when empty
    /// [default: containerd's, if it is there]
    #[arg(long, env = "BERTH_CRI_SOCKET", value_name = "FILE", value_parser = path_or_nothing)]
    cri_socket: Option<PathBuf>,
    /// How long an address cools down before another pod gets it, while others are free
    #[arg(long, env = "BERTH_REUSE_DELAY", value_name = "DURATION", default_value = "30s", value_parser = duration)]
    reuse_delay: Duration,
    /// How long an owner must be gone before its address is taken back
    #[arg(long, env = "BERTH_RECLAIM_GRACE", value_name = "DURATION", default_value = "5m", value_parser = duration)]
    reclaim_grace: Duration,
    /// Put the plugins in place at the start, and their conf once the agent serves
    #[arg(long, env = "BERTH_INSTALL_CNI")]
    install_cni: bool,
    /// Take conf and plugins out again, and end
    #[arg(long, env = "BERTH_UNINSTALL_CNI", conflicts_with = "install_cni")]
    uninstall_cni: bool,
    /// Where the container runtime looks for plugins
    #[arg(long, env = "BERTH_CNI_BIN_DIR", value_name = "DIR", default_value = DEFAULT_BIN_DIR)]
    cni_bin_dir: PathBuf,
    /// Where the container runtime looks for its network configuration
    #[arg(long, env = "BERTH_CNI_CONF_DIR", value_name = "DIR", default_value = DEFAULT_CONF_DIR)]
    cni_conf_dir: PathBuf,
    /// Whether the runtime calls the plugin portmap as well, which gives pods their hostPorts:
    /// auto where --cni-bin-dir has one that knows CNI 1.1.0; always also where it is older, and
    /// then the runtime asks for no STATUS any more
    #[arg(long, env = "BERTH_HOST_PORTS", value_name = "WHEN", default_value = "auto")]
    host_ports: HostPorts,
    /// Make routes to the pods of all other nodes in this machine's kernel; off by default
    #[arg(long, env = "BERTH_ROUTES", value_name = "KIND")]
    routes: Option<Routes>,
    #[command(flatten)]
    cidrs: ClusterCidrs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum HostPorts {
    Auto,
    Always,
    Off,
}

impl HostPorts {
    fn portmap(self, directories: &Directories) -> Option<Portmap> {
        let found = (self != Self::Off).then(|| directories.portmap()).flatten()?;
        if self == Self::Auto && !found.knows_all_versions() {
            warn!(
                "portmap does not know CNI 1.1.0; pods get no hostPort without \
                 --host-ports=always"
            );
            return None;
        }
        Some(found)
    }
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Routes {
    Linux,
}

impl Agent {
    pub fn run(self, common: &CommonArgs) -> Result<()> {
        let directories = Directories::new(&self.cni_bin_dir, &self.cni_conf_dir);
        if self.uninstall_cni {
            return Ok(directories.uninstall()?);
        }
        // A single thread: an ADD takes microseconds, and memory on a node is for its pods.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context("starting")?;
        let outcome = runtime.block_on(self.start_and_wait(common, directories));
        // Every answer is in the journal: other work may end with the process.
        runtime.shutdown_background();
        outcome
    }

    async fn start_and_wait(self, common: &CommonArgs, directories: Directories) -> Result<()> {
        let options = self.options()?;
        if self.install_cni {
            let program = std::env::current_exe().context("--install-cni: finding this program")?;
            directories.install_plugins(&Source::beside(&program))?;
        }
        let shutdown = Shutdown::on_signals().context("listening for signals")?;
        let tasks = shutdown.tasks();
        let client = common.cluster.client().await?;
        let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
        let readiness = Readiness::default();
        let ready = readiness.check("agent");
        let reporter = Reporter {
            controller: "berth-agent".to_owned(),
            instance: Some(options.node.clone()),
        };
        let event_metrics = metrics.share(EventMetrics::register);
        let mut random = StdRng::from_rng(&mut rand::rng());
        let (events, writer) =
            Recorder::new(client.clone(), reporter, &event_metrics, StdRng::from_rng(&mut random));
        let stopping = tasks.stopping();
        tasks.spawn("events", async move {
            writer.run(stopping).await;
            anyhow::Ok(())
        });
        if let Some(Routes::Linux) = self.routes {
            let settings = RouteSettings::of_agent(&options.node, &self.cidrs, &metrics)?;
            let check = Arc::new(readiness.check("routes"));
            let options = settings.options(client.clone(), Some(check));
            let run = berth_routes::controller::run(options, tasks.stopping());
            tasks.spawn("routes", async move {
                run.await;
                anyhow::Ok(())
            });
        }
        let digests = Digests::default();
        if let Some(address) = common.metrics_listen {
            let admin = Admin::bind(address, metrics.clone(), readiness).await?;
            tasks.spawn("metrics", admin.with(digests.router()).serve(tasks.stopping()));
        }
        let context = AgentContext {
            client,
            metrics: metrics.register(AgentMetrics::register),
            events,
        };
        let mut conf = self.install_cni.then(|| Conf {
            socket: options.socket.clone(),
            queue_dir: options.queue_dir.clone(),
            mtu: None,
            reconnect: RECONNECT_TIMEOUT,
            portmap: self.host_ports.portmap(&directories),
        });
        let (placing, stopping) = (tasks.clone(), tasks.stopping());
        tasks.spawn("agent", async move {
            let say = move |standing: Standing<'_>| {
                digests.follow(&standing);
                match standing {
                    Standing::Waits(why) => ready.not_ready_because(why),
                    Standing::Serves(_) => {
                        ready.ready();
                        if let Some(conf) = conf.take() {
                            let directories = directories.clone();
                            // The kubelet sees the node as ready from now on. A conf that cannot be
                            // placed ends the agent: somebody must notice.
                            let place = async move { directories.place_conf(&conf).map(drop) };
                            placing.spawn("conf", place);
                        }
                    }
                }
            };
            berth_agent::run(options, context, random, say, stopping).await
        });
        shutdown.finished(STOP_TIMEOUT).await?;
        Ok(())
    }

    fn cri_socket(&self) -> Option<PathBuf> {
        let socket = match &self.cri_socket {
            Some(given) => Some(given.clone()),
            None => Some(PathBuf::from(CONTAINERD)).filter(|path| path.exists()),
        };
        socket.filter(|path| !path.as_os_str().is_empty())
    }

    fn options(&self) -> Result<Options> {
        let node = match &self.node_name {
            Some(name) => name.clone(),
            None => super::hostname()
                .context("--node-name: the machine has no host name; give the node's name")?,
        };
        ensure!(
            !node.is_empty(),
            "--node-name: it is empty; give the name that the node has in the cluster"
        );
        let machine = Machine::read().context("reading the id of this boot")?;
        Ok(Options {
            node,
            socket: self.socket.clone(),
            state_dir: self.state_dir.clone(),
            queue_dir: self.queue_dir.clone(),
            compat_listen: self.compat_listen,
            compat_queue_dir: self.compat_queue_dir.clone(),
            cri_socket: self.cri_socket(),
            boot: machine.boot_id.clone(),
            lock_dir: self.lock_dir.clone().unwrap_or_else(lock_dir),
            machine,
            clock: Clock::Boot,
            rest: self.reuse_delay,
            grace: self.reclaim_grace,
        })
    }
}

/// The directory is the same for all agents of this machine, whatever their sockets and state
/// directories are.
fn lock_dir() -> PathBuf {
    let user = rustix::process::geteuid();
    let socket = PathBuf::from(DEFAULT_SOCKET);
    if let (true, Some(directory)) = (user.is_root(), socket.parent()) {
        return directory.to_owned();
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|path| !path.is_empty()) {
        Some(runtime) => PathBuf::from(runtime).join("berth"),
        None => std::env::temp_dir().join(format!("berth-{}", user.as_raw())),
    }
}

/// Parses a path that may be empty, which clap's own parser refuses.
#[allow(clippy::unnecessary_wraps, reason = "clap wants a Result")]
fn path_or_nothing(text: &str) -> Result<PathBuf, std::convert::Infallible> {
    Ok(PathBuf::from(text))
}
