//! `berth controller`: the controllers that keep Subnets, NodeNetworkConfigs and the ledger of a
//! cluster in step.

mod machines;
mod source;
mod webhook;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use berth_kit::admin::Admin;
use berth_kit::args::CommonArgs;
use berth_kit::controller::{Catalogue, Choice, Group};
use berth_kit::events::EventMetrics;
use berth_kit::health::{Check, Readiness};
use berth_kit::lease::{ElectionMetrics, LeaderElection};
use berth_kit::metrics::Metrics;
use berth_kit::queue::QueueMetrics;
use berth_kit::shutdown::{Shutdown, Tasks};
use berth_ledger::{Clock, LedgerMetrics};
use berth_machines::metrics::MachineMetrics;
use berth_nodenet::controllers::{self as nodenet, Controller as Name, ControllerMetrics, Options};
use berth_routes::controller as routes;
use berth_scheduler::SchedulerMetrics;
use berth_scheduler::pod_ips::{self, PodIps};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;
use tracing::info;

use super::count::CountArgs;
use super::routes::{RouteArgs, RouteSettings};
use super::{duration, hostname};
use machines::{MachineArgs, Machines, MachinesMetrics};
use source::{Source, SourceArgs};
use webhook::WebhookArgs;

/// Work that is under way at the signal to stop gets this long.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// The Lease that processes with the default controllers compete for.
pub const LEASE: &str = "berth-controller";

/// Run the controllers of a cluster: a network container for every node, subnets and their state
#[derive(Debug, clap::Args)]
pub struct Controller {
    /// Which to run, separated by commas: subnet, node, nnc, subnet-state and reclaim are '*'; by
    /// name only: nodeipam, route, pod-ips, machine, claim, cluster; -NAME is all but that one
    #[arg(long, env = "BERTH_CONTROLLERS", value_name = "LIST", default_value = "*")]
    controllers: String,
    /// Work only while this process holds the Lease of these controllers; without it, run one
    /// process
    #[arg(long, env = "BERTH_LEADER_ELECT", default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    leader_elect: bool,
    #[command(flatten)]
    source: SourceArgs,
    /// This cluster's name in the ledger; must never change [default: that in --allocator-cert,
    /// else the UID of the namespace kube-system]
    #[arg(long, env = "BERTH_CLUSTER_NAME", value_name = "NAME")]
    cluster_name: Option<String>,
    /// How long a Node must be gone before its addresses are taken back, as 90s, 2m or 1h
    #[arg(long, env = "BERTH_NODE_GRACE", value_name = "DURATION", default_value = "2m", value_parser = duration)]
    node_grace: Duration,
    #[command(flatten)]
    routes: RouteArgs,
    #[command(flatten)]
    count: CountArgs,
    #[command(flatten)]
    machines: MachineArgs,
    #[command(flatten)]
    webhook: WebhookArgs,
}

impl Controller {
    pub fn run(self, common: &CommonArgs) -> Result<()> {
        let runtime = tokio::runtime::Runtime::new().context("starting")?;
        runtime.block_on(self.start_and_wait(common))
    }

    async fn start_and_wait(self, common: &CommonArgs) -> Result<()> {
        let choice = catalogue().choose(&self.controllers).context("--controllers")?;
        let machines = Machines::of(&choice, self.machines)?;
        let webhook = self.webhook.choose(&machines)?;
        let source = self.source.choose()?;
        ensure!(
            !(source.is_service() && choice.has(Name::NodeIpam.name())),
            "--controllers {}: the service of --allocator allocates no podCIDRs: leave it \
             out, or use --store instead of --allocator",
            Name::NodeIpam
        );
        if let Some(name) = machines.needs_ledger().filter(|_| source.is_service()) {
            bail!(
                "--controllers {name}: the service of --allocator gives no addresses to \
                 machines: leave it out, or use --store"
            );
        }
        let cluster = source.cluster(self.cluster_name.as_deref())?;
        let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
        let is_router = choice.has_any_of(&routes::CONTROLLERS);
        let routes = is_router.then(|| self.routes.settings(&metrics)).transpose()?;
        let shutdown = Shutdown::on_signals().context("listening for signals")?;
        let client = common.cluster.client().await?;
        let cluster = match cluster {
            Some(name) => name,
            None => uid_of_cluster(client.clone()).await?,
        };
        let readiness = Readiness::default();
        let ready = readiness.check("controllers");
        // A process that waits to lead counts as ready.
        let routes_ready = routes.as_ref().map(|_| Arc::new(readiness.check("routes")));
        routes_ready.iter().for_each(|check| check.ready());
        let tasks = shutdown.tasks();
        if let Some(address) = common.metrics_listen {
            let admin = Admin::bind(address, metrics.clone(), readiness).await?;
            tasks.spawn("metrics", admin.serve(tasks.stopping()));
        }
        let webhook = match webhook {
            Some(choice) => Some(choice.start(client.clone(), &metrics, &tasks).await?),
            None => None,
        };
        let source = source.open(&client).await?;
        info!(cluster, source = source.shown(), "controller started");
        let pod_ips = PodIps {
            client: client.clone(),
            settings: self.count.settings(),
            queues: metrics.share(QueueMetrics::register),
            metrics: metrics.share(SchedulerMetrics::register),
        };
        let work = Work {
            client,
            source,
            cluster,
            choice,
            machines: machines.with_webhook(webhook),
            controllers: controller_metrics(&metrics),
            machine_metrics: MachinesMetrics {
                queues: metrics.share(QueueMetrics::register),
                events: metrics.share(EventMetrics::register),
                machines: metrics.register(MachineMetrics::register),
            },
            ledger: metrics.register(LedgerMetrics::register),
            node_grace: self.node_grace,
            routes,
            routes_ready,
            pod_ips,
        };
        ready.ready();
        if self.leader_elect {
            let election = metrics.register(ElectionMetrics::register);
            work.run_as_leader(&tasks, &election);
        } else {
            let stop = tasks.stopping();
            tasks.spawn("controllers", async move { work.run(stop).await });
        }
        shutdown.finished(STOP_TIMEOUT).await?;
        Ok(())
    }
}

pub fn controller_metrics(metrics: &Metrics) -> ControllerMetrics {
    let queues = metrics.share(QueueMetrics::register);
    let events = metrics.share(EventMetrics::register);
    metrics.register(|registry| ControllerMetrics::register(registry, queues, events))
}

/// The work of a leader.
#[derive(Clone)]
struct Work {
    client: Client,
    source: Source,
    cluster: String,
    choice: Choice,
    machines: Machines,
    controllers: ControllerMetrics,
    machine_metrics: MachinesMetrics,
    ledger: LedgerMetrics,
    node_grace: Duration,
    routes: Option<RouteSettings>,
    routes_ready: Option<Arc<Check>>,
    pod_ips: PodIps,
}

impl Work {
    async fn run(self, stop: CancellationToken) -> Result<()> {
        let choice = self.choice.clone();
        let pod_ips = self.pod_ips.clone().group();
        let groups = [self.clone().on_ledger(), self.routes(), pod_ips];
        choice.run(&groups, stop).await.map_err(|error| anyhow!(error))
    }

    /// The controllers that share a ledger, as one group: those of nodes and machines.
    fn on_ledger(self) -> Group {
        let all = nodenet::CONTROLLERS.into_iter().chain(berth_machines::CONTROLLERS);
        Group::new(all, move |names, stop| {
            self.clone().run_on_ledger(Name::named(&names), stop)
        })
    }

    fn routes(self) -> Group {
        Group::new(routes::CONTROLLERS, move |_, stop| {
            let (settings, ready) = (self.routes.clone(), self.routes_ready.clone());
            let options = settings.map(|settings| settings.options(self.client.clone(), ready));
            async move {
                if let Some(options) = options {
                    routes::run(options, stop).await;
                }
                anyhow::Ok(())
            }
        })
    }

    async fn run_on_ledger(self, chosen: BTreeSet<Name>, stop: CancellationToken) -> Result<()> {
        let clock = Clock::system();
        let (allocator, ledger) = self.source.allocator(clock, self.ledger);
        let machines = self.machines.run(
            self.client.clone(),
            ledger.clone(),
            self.cluster.clone(),
            self.machine_metrics,
            stop.clone(),
        );
        let options = Options {
            client: self.client,
            allocator,
            cluster: self.cluster,
            controllers: chosen,
            clock,
            metrics: self.controllers,
            instance: hostname(),
            seed: None,
            node_grace: self.node_grace,
            stop,
        };
        let (nodes, machines) = tokio::join!(nodenet::run(options), machines);
        nodes.map_err(|error| anyhow!("--cluster-name: {error}")).and(machines)
    }

    fn run_as_leader(self, tasks: &Tasks, metrics: &ElectionMetrics) {
        let identity = format!("{}_{:016x}", hostname().unwrap_or_default(), rand::random::<u64>());
        let election = LeaderElection::new(
            self.client.clone(),
            berth_api::names::NAMESPACE,
            &self.choice.lease(LEASE),
            identity,
        );
        let election = election.with_metrics(metrics);
        let mut leadership = election.leadership();
        let stop = tasks.stopping();
        tasks.spawn("election", async move {
            election.run(stop).await;
            anyhow::Ok(())
        });
        tasks.spawn("controllers", async move {
            leadership.lead(|stop| self.clone().run(stop)).await
        });
    }
}

pub async fn uid_of_cluster(client: Client) -> Result<String> {
    let namespace = Api::<Namespace>::all(client).get("kube-system").await;
    let namespace =
        namespace.context("the cluster does not answer: reading the namespace kube-system")?;
    namespace
        .metadata
        .uid
        .context("the namespace kube-system has no UID: give --cluster-name")
}

/// All controllers, from all crates.
fn catalogue() -> Catalogue {
    let all = nodenet::CONTROLLERS.into_iter().chain(routes::CONTROLLERS);
    let all = all.chain([pod_ips::CONTROLLER]);
    Catalogue::new(all.chain(berth_machines::CONTROLLERS))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_star_is_what_most_clusters_want() {
        let names: Vec<_> = catalogue().choose("*").unwrap().names().collect();
        assert_eq!(names, ["subnet", "node", "nnc", "subnet-state", "reclaim"]);
    }

    #[test]
    fn each_controller_has_a_unique_name_and_an_rbac_manifest() {
        let deploy = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
        let mut names = BTreeSet::new();
        for controller in catalogue().controllers() {
            assert!(names.insert(controller.name), "{controller:?}");
            assert!(deploy.join(controller.rbac).is_file(), "{controller:?}");
        }
    }
}
