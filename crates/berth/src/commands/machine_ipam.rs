//! `berth machine-ipam`: only networks for the Machines of a user cluster. It uses that cluster
//! alone, also for its Lease, Subnets, blocks and events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use berth_api::machines::flag::NetworkFlag;
use berth_kit::admin::Admin;
use berth_kit::args::CommonArgs;
use berth_kit::events::EventMetrics;
use berth_kit::health::Readiness;
use berth_kit::lease::{ElectionMetrics, LeaderElection};
use berth_kit::metrics::Metrics;
use berth_kit::queue::QueueMetrics;
use berth_kit::shutdown::Shutdown;
use berth_ledger::store::KubernetesStore;
use berth_ledger::{Clock, Ledger, LedgerMetrics};
use berth_machines::ipam;
use berth_machines::metrics::MachineMetrics;
use berth_nodenet::allocator::local::LocalAllocator;
use berth_nodenet::controllers::{self, Controller, ControllerMetrics};
use kube::Client;
use tokio_util::sync::CancellationToken;

use super::controller::{controller_metrics, uid_of_cluster};
use super::{duration, hostname};

const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// The Lease that processes of this command compete for.
pub const LEASE: &str = "berth-machine-ipam";

/// Give the Machines of a cluster their networks from CIDRs, without DHCP
#[derive(Debug, clap::Args)]
pub struct MachineIpam {
    /// A network, as "CIDR,GATEWAY,DNS,DNS"; repeatable, tried in this order; -network works, too
    #[arg(
        long,
        env = "BERTH_NETWORK",
        value_name = "NETWORK",
        value_delimiter = ';',
        required = true
    )]
    network: Vec<NetworkFlag>,
    /// Work only while this process holds the Lease; without it, run one process
    #[arg(long, env = "BERTH_LEADER_ELECT", default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    leader_elect: bool,
    /// This cluster's name in the ledger; must never change [default: the UID of the namespace
    /// kube-system]
    #[arg(long, env = "BERTH_CLUSTER_NAME", value_name = "NAME")]
    cluster_name: Option<String>,
    /// How long a Machine must be gone before its address is taken back, when it went without its
    /// finalizer
    #[arg(long, env = "BERTH_MACHINE_GRACE", value_name = "DURATION", default_value = "5m", value_parser = duration)]
    machine_grace: Duration,
}

impl MachineIpam {
    pub fn run(self, common: &CommonArgs) -> Result<()> {
        let runtime = tokio::runtime::Runtime::new().context("starting")?;
        runtime.block_on(self.start_and_wait(common))
    }

    async fn start_and_wait(self, common: &CommonArgs) -> Result<()> {
        ensure!(
            !self.network.is_empty(),
            "--network: give at least one, as \"10.0.0.0/24,10.0.0.1,10.0.0.53\""
        );
        NetworkFlag::check_all(&self.network).map_err(|error| anyhow!("--network: {error}"))?;
        let shutdown = Shutdown::on_signals().context("listening for signals")?;
        let client = common.cluster.client().await?;
        let cluster = match self.cluster_name {
            Some(name) => name,
            None => uid_of_cluster(client.clone()).await?,
        };
        let metrics = Metrics::new(env!("CARGO_PKG_VERSION"));
        let readiness = Readiness::default();
        let ready = readiness.check("machines");
        let tasks = shutdown.tasks();
        if let Some(address) = common.metrics_listen {
            let admin = Admin::bind(address, metrics.clone(), readiness).await?;
            tasks.spawn("metrics", admin.serve(tasks.stopping()));
        }
        let work = Work {
            client: client.clone(),
            cluster,
            networks: self.network,
            controllers: controller_metrics(&metrics),
            queues: metrics.share(QueueMetrics::register),
            events: metrics.share(EventMetrics::register),
            counts: metrics.register(MachineMetrics::register),
            ledger: metrics.register(LedgerMetrics::register),
            grace: self.machine_grace,
        };
        ready.ready();
        if self.leader_elect {
            let identity =
                format!("{}_{:016x}", hostname().unwrap_or_default(), rand::random::<u64>());
            let election =
                LeaderElection::new(client, berth_api::names::NAMESPACE, LEASE, identity);
            let election = election.with_metrics(&metrics.register(ElectionMetrics::register));
            let mut leadership = election.leadership();
            let stop = tasks.stopping();
            tasks.spawn("election", async move {
                election.run(stop).await;
                anyhow::Ok(())
            });
            tasks.spawn("machines", async move {
                leadership.lead(|stop| work.clone().run(stop)).await
            });
        } else {
            let stop = tasks.stopping();
            tasks.spawn("machines", async move { work.run(stop).await });
        }
        shutdown.finished(STOP_TIMEOUT).await?;
        Ok(())
    }
}

/// The work of a leader.
#[derive(Clone)]
struct Work {
    client: Client,
    cluster: String,
    networks: Vec<NetworkFlag>,
    controllers: ControllerMetrics,
    queues: QueueMetrics,
    events: EventMetrics,
    counts: MachineMetrics,
    ledger: LedgerMetrics,
    grace: Duration,
}

impl Work {
    /// The subnet controller registers the Subnets of the networks in the ledger that serves the
    /// machines.
    async fn run(self, stop: CancellationToken) -> Result<()> {
        let clock = Clock::system();
        let store = Arc::new(KubernetesStore::new(self.client.clone()));
        let ledger = Ledger::new(store, clock, self.ledger);
        let subnets = controllers::Options {
            client: self.client.clone(),
            allocator: Arc::new(LocalAllocator::new(ledger.clone())),
            cluster: self.cluster.clone(),
            controllers: BTreeSet::from([Controller::Subnet]),
            clock,
            metrics: self.controllers,
            instance: hostname(),
            seed: None,
            node_grace: controllers::DEFAULT_NODE_GRACE,
            stop: stop.clone(),
        };
        let machines = ipam::Options {
            client: self.client,
            ledger,
            cluster: self.cluster,
            networks: self.networks,
            clock,
            queues: self.queues,
            events: self.events,
            metrics: self.counts,
            instance: hostname(),
            seed: None,
            grace: self.grace,
            stop,
        };
        let (subnets, machines) = tokio::join!(controllers::run(subnets), ipam::run(machines));
        subnets
            .and(machines)
            .map_err(|error| anyhow!("--cluster-name: {error}"))
    }
}

/// Accepts `-network` and `-network=…`, the old form of the flag.
pub fn with_two_dashes(
    arguments: impl Iterator<Item = std::ffi::OsString>,
) -> Vec<std::ffi::OsString> {
    let arguments: Vec<_> = arguments.collect();
    if !arguments.iter().any(|argument| argument == "machine-ipam") {
        return arguments;
    }
    let fixed = |argument: std::ffi::OsString| match argument.to_str() {
        Some(text) if text == "-network" || text.starts_with("-network=") => {
            format!("-{text}").into()
        }
        _ => argument,
    };
    arguments.into_iter().map(fixed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_dash_will_do_where_the_field_writes_one() {
        let fixed = |words: &[&str]| {
            let fixed = with_two_dashes(words.iter().map(Into::into));
            fixed
                .into_iter()
                .map(|word| word.into_string().unwrap())
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(
            fixed(&["berth", "machine-ipam", "-network", "a", "-network=b"]),
            "berth machine-ipam --network a --network=b"
        );
        assert_eq!(fixed(&["berth", "up", "-network"]), "berth up -network");
    }
}
