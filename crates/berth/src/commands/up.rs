//! `berth up`: a cluster on this machine.
//!
//! A wrong call fails before anything is changed: the flags are checked first, then the ports, then
//! the data directory.

mod controllers;
mod demo;
mod directory;
mod leases;
mod limit;
mod lines;
mod network;
mod nodes;
mod plugin;
mod progress;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use berth_api::agent::DEFAULT_METRICS_PORT;
use berth_apiserver::Server;
use berth_cluster::{Cluster, Fleet, Options};
use berth_dashboard::Dashboard;
use berth_dashboard::state::About;
use berth_kit::admin::{self, Admin};
use berth_kit::args::CommonArgs;
use berth_kit::clock::Clock;
use berth_kit::health::Readiness;
use berth_kit::lease::ElectionMetrics;
use berth_kit::listen;
use berth_kit::metrics::Metrics;
use berth_kit::shutdown::{Shutdown, Tasks, Unclean};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Api, Client, ResourceExt};
use rustix::fs::Mode;
use rustix::process::umask;
use tracing::warn;

use super::dashboard::{ensure_loopback, hint, serve, token};
use super::duration;
use controllers::Controllers;
use directory::Directory;
use leases::Leases;
use limit::PodIps;
use network::Space;
use nodes::{Agents, NodeDirectories};
use plugin::Plugin;
use progress::Progress;

/// Work that is under way at the signal to stop gets this long.
const STOP_TIMEOUT: Duration = Duration::from_millis(1800);

/// After that, blocking work on its own thread, such as a pass over a directory, gets this long.
const BLOCKING_TIMEOUT: Duration = Duration::from_millis(200);

/// Nodes get their first addresses within a tenth of this time. In a full subnet some never do, and
/// `berth up` must still be ready within a second.
const SUPPLY_TIMEOUT: Duration = Duration::from_millis(600);

/// Run a cluster on this machine: a Kubernetes API, virtual nodes, a scheduler, a dashboard
#[derive(Debug, clap::Args)]
pub struct Up {
    /// Where everything is kept; the next start goes on from there [default: $XDG_DATA_HOME/berth
    /// or ~/.local/share/berth]
    #[arg(long, env = "BERTH_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// How many virtual nodes to run
    #[arg(long, env = "BERTH_NODES", value_name = "N", default_value_t = 3)]
    nodes: u32,
    /// Address space for pods at the first start, repeatable: one CIDR or more of each family
    /// [default: 10.64.0.0/16]
    #[arg(long, env = "BERTH_SUBNET", value_name = "CIDR", value_delimiter = ',')]
    subnet: Vec<String>,
    /// Give every node a podCIDR out of this space, repeatable, and pods their addresses from it;
    /// not with --subnet
    #[arg(
        long,
        env = "BERTH_NODE_CIDRS",
        value_name = "CIDR",
        value_delimiter = ',',
        conflicts_with = "subnet"
    )]
    node_cidrs: Vec<String>,
    /// How long the prefix of a node's IPv4 podCIDR is, with --node-cidrs
    #[arg(long, env = "BERTH_NODE_CIDR_MASK_SIZE", value_name = "LENGTH", default_value_t = 24)]
    node_cidr_mask_size: u8,
    /// And of its IPv6 podCIDR
    #[arg(
        long,
        env = "BERTH_NODE_CIDR_MASK_SIZE_IPV6",
        value_name = "LENGTH",
        default_value_t = 64
    )]
    node_cidr_mask_size_ipv6: u8,
    /// Where the Kubernetes API listens, over TLS (port 0 picks one)
    #[arg(
        long,
        env = "BERTH_API_LISTEN",
        value_name = "ADDR",
        default_value = "127.0.0.1:7443"
    )]
    api_listen: SocketAddr,
    /// Where the dashboard listens, on loopback (port 0 picks one)
    #[arg(
        long,
        env = "BERTH_DASHBOARD_LISTEN",
        value_name = "ADDR",
        default_value = "127.0.0.1:7480"
    )]
    dashboard_listen: SocketAddr,
    /// The file with the token that changes by the dashboard need, for its owner alone; made when
    /// it is not there [default: dashboard-token in the data directory]
    #[arg(long, env = "BERTH_DASHBOARD_TOKEN_FILE", value_name = "FILE")]
    dashboard_token_file: Option<PathBuf>,
    /// Keep nothing: what is made is gone after the stop
    #[arg(long, env = "BERTH_IN_MEMORY")]
    in_memory: bool,
    /// Play a load to watch on the dashboard: deployments grow and shrink, a small Subnet runs out
    /// and recovers, nodes come and go, machines are made. Nothing is kept
    #[arg(long, env = "BERTH_DEMO", conflicts_with_all = ["data_dir", "node_cidrs"])]
    demo: bool,
    /// How long the demo rests between two acts
    #[arg(long, env = "BERTH_DEMO_INTERVAL", value_name = "DURATION", default_value = "5s", value_parser = duration)]
    demo_interval: Duration,
}

impl Up {
    pub fn run(self, common: &CommonArgs) -> Result<()> {
        // All files are for the user alone: Secrets, keys, who has which address.
        umask(Mode::RWXG | Mode::RWXO);
        let runtime = tokio::runtime::Runtime::new().context("starting")?;
        let mut directory = None;
        let outcome = runtime.block_on(self.start_and_wait(common, &mut directory));
        // Every answer is on disk, so other work may end with the process. But an agent must not go
        // on in its release queue once the directory is gone: it would create the directory again.
        runtime.shutdown_timeout(BLOCKING_TIMEOUT);
        drop(directory);
        outcome
    }

    async fn start_and_wait(
        self,
        common: &CommonArgs,
        directory: &mut Option<Directory>,
    ) -> Result<()> {
        let shutdown = Shutdown::on_signals().context("listening for signals")?;
        let progress = Progress::start();
        let started = self.start(common, shutdown.tasks(), &progress).await;
        progress.end();
        let started = started?;
        let directory = directory.insert(started.directory);
        lines::print(&started.kubeconfig, started.dashboard, directory);
        if let Some(demo) = started.demo {
            let tasks = shutdown.tasks();
            let stopping = tasks.stopping();
            tasks.spawn("demo", async move {
                demo.run(stopping).await;
                Ok::<(), Infallible>(())
            });
        }
        match shutdown.finished(STOP_TIMEOUT).await {
            Err(slow @ Unclean::TimedOut { .. }) => warn!("{slow}"),
            other => other?,
        }
        Ok(())
    }

    async fn start(
        self,
        common: &CommonArgs,
        tasks: Tasks,
        progress: &Progress,
    ) -> Result<Started> {
        let fleet =
            Fleet::new(self.nodes).map_err(|error| anyhow!("--nodes {}: {error}", self.nodes))?;
        ensure_loopback("--dashboard-listen", self.dashboard_listen)?;
        let space = match self.node_cidrs.as_slice() {
            [] if self.demo => Space::of_demo(&self.subnet)?,
            [] => Space::choose(&self.subnet)?,
            cidrs => {
                Space::of_nodes(cidrs, self.node_cidr_mask_size, self.node_cidr_mask_size_ipv6)?
            }
        };
        let mut directory = Directory::choose(self.data_dir, self.in_memory || self.demo)?;
        let (token_flag, token_file) = match self.dashboard_token_file {
            Some(path) => ("--dashboard-token-file", path),
            None => ("--data-dir", directory.dashboard_token()),
        };
        // A bad token file from a flag is refused before anything is changed.
        if token_flag != "--data-dir" {
            token::read(token_flag, &token_file)?;
        }
        let directories = NodeDirectories::choose(&directory, fleet)?;
        let (api_listener, api) = listen::bind("--api-listen", self.api_listen).await?;
        let (dashboard_listener, dashboard) =
            listen::bind("--dashboard-listen", self.dashboard_listen).await?;
        let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
        let readiness = Readiness::default();
        let ready = readiness.check("cluster");
        let admin = match common.metrics_listen {
            Some(address) => Some(Admin::bind(address, metrics.clone(), readiness.clone()).await?),
            None => None,
        };

        progress.begin("starting the API");
        let digests = nodes::digests(fleet);
        let asked = digests.clone();
        let answers = move |node: &str, port: u16| {
            let digests = asked.get(node).filter(|_| port == DEFAULT_METRICS_PORT);
            digests.map(berth_agent::Digests::router)
        };
        let options = berth_apiserver::Options {
            data_dir: directory.objects(),
            node_proxy: berth_apiserver::NodeProxy::new(answers),
            // New Machines wait for their network, as with the policy in a cluster.
            admission: berth_apiserver::Admission::new(berth_machines::gate::admit),
            ..berth_apiserver::Options::default()
        };
        let server = Server::open(options)
            .await
            .map_err(|error| anyhow!("--data-dir: {error}"))?;
        // From here on the directory is ours.
        directory.remove_kubeconfig()?;
        directory.make()?;
        directory.restrict()?;
        let token = token::read_or_make(token_flag, &token_file)?;
        let client = server.client();
        progress.begin("defining Berth's resources");
        define_resources(client.clone()).await?;
        let has_node_cidrs = space.ensure(client.clone()).await?;
        progress.begin("starting the controllers");
        let store = controllers::open_store(directory.ledger())?;
        let controllers = Controllers::new(client.clone(), store, has_node_cidrs, &metrics);
        let leases = Leases::new(&client, &metrics.register(ElectionMetrics::register))?;
        let controllers = tokio::spawn(controllers.lead(leases, tasks.stopping()));
        let books = network::count_pod_ips(&client, &metrics, &tasks.stopping()).await;
        progress.begin(&format!("starting {} nodes", fleet.size()));
        let agents = Agents::start(&client, fleet, &directories, &digests, &metrics, &tasks)?;
        let options = Options {
            fleet,
            clock: Clock::System,
            metrics: metrics.clone(),
            seed: None,
            network: Some(Arc::new(Plugin::new(directories, agents.ready()))),
            limit: Some(Arc::new(PodIps::new(books.clone()))),
        };
        let cluster = Cluster::start(client.clone(), options, tasks.stopping()).await?;
        progress.begin("giving the nodes their first addresses");
        // The first pods are then not refused for want of addresses on their nodes.
        let nodes = usize::from(fleet.size());
        let _ = tokio::time::timeout(SUPPLY_TIMEOUT, books.supplied(nodes)).await;

        progress.begin("opening the dashboard");
        let demo = demo::Demo::new(client.clone(), fleet, self.demo_interval);
        let options = berth_dashboard::Options {
            client,
            about: About::new(format!("https://{api}"), Some(directory.to_string()), true),
            agents: berth_dashboard::Agents::Here(metrics.clone()),
            token,
            token_hint: hint(&token_file),
        };
        let page = Dashboard::new(options, tasks.stopping());
        let router = page.router(admin::router(metrics, readiness));
        tasks.spawn("dashboard watches", page.run());
        let stopping = tasks.stopping();
        tasks.spawn("dashboard", serve(dashboard_listener, router, stopping));
        if let Some(admin) = admin {
            tasks.spawn("metrics", admin.serve(tasks.stopping()));
        }
        let connections = server.serve(api_listener)?;
        let kubeconfig = directory.write_kubeconfig(&server.kubeconfig(api))?;
        let stopping = tasks.stopping();
        tasks.spawn("cluster", async move {
            stopping.cancelled().await;
            // Stops the loops first: they write to the server.
            match controllers.await {
                Ok(Err(error)) => warn!("the controllers ended: {error:#}"),
                Err(error) => warn!("the controllers ended: {error}"),
                Ok(Ok(())) => {}
            }
            cluster.stopped().await;
            agents.stopped().await;
            server.stop().await;
            connections.await
        });
        ready.ready();
        Ok(Started {
            directory,
            kubeconfig,
            dashboard,
            demo: self.demo.then_some(demo),
        })
    }
}

/// The running parts and their addresses.
struct Started {
    directory: Directory,
    kubeconfig: PathBuf,
    dashboard: SocketAddr,
    demo: Option<demo::Demo>,
}

/// `kubectl get nnc` and `kubectl explain nnc.spec` then work from the first moment.
async fn define_resources(client: Client) -> Result<()> {
    let api = Api::<CustomResourceDefinition>::all(client);
    let params = PatchParams::apply("berth").force();
    let machines = berth_api::crds::machines::all()?;
    for crd in berth_api::crds::all().into_iter().chain(machines) {
        let name = crd.name_any();
        let applied = api.patch(&name, &params, &Patch::Apply(&crd)).await;
        if let Err(error) = applied {
            bail!("the resource {name} cannot be defined: {error}");
        }
        await_condition(api.clone(), &name, conditions::is_crd_established()).await?;
    }
    Ok(())
}
