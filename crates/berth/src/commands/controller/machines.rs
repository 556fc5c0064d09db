//! The controllers of machines, which run only by name.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Result, anyhow, ensure};
use berth_api::machines::flag::NetworkFlag;
use berth_kit::controller::Choice;
use berth_kit::events::EventMetrics;
use berth_kit::queue::QueueMetrics;
use berth_ledger::{Clock, Ledger};
use berth_machines::metrics::MachineMetrics;
use berth_machines::webhook::Webhook;
use berth_machines::{CLAIM, CLUSTER, CONTROLLERS, MACHINE, capi, cluster, ipam};
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::commands::{duration, hostname};

#[derive(Clone, Debug, clap::Args)]
pub struct MachineArgs {
    /// For the controller machine: a network, as "CIDR,GATEWAY,DNS,DNS"; repeatable. Without any,
    /// Subnets with the label berth.dev/machine-network are drawn on
    #[arg(long, env = "BERTH_NETWORK", value_name = "NETWORK", value_delimiter = ';')]
    network: Vec<NetworkFlag>,
    /// How long a Machine or a claim must be gone before its address is taken back, when nobody saw
    /// it go
    #[arg(long, env = "BERTH_MACHINE_GRACE", value_name = "DURATION", default_value = "5m", value_parser = duration)]
    machine_grace: Duration,
    /// For the controller cluster: the image with berth that machine IPAM runs from
    #[arg(long, env = "BERTH_MACHINE_IMAGE", value_name = "IMAGE", default_value = concat!("berth:", env!("CARGO_PKG_VERSION")))]
    machine_image: String,
}

/// Their metrics.
#[derive(Clone, Debug)]
pub struct MachinesMetrics {
    pub queues: QueueMetrics,
    pub events: EventMetrics,
    pub machines: MachineMetrics,
}

/// The controllers that are chosen.
#[derive(Clone, Debug)]
pub struct Machines {
    names: BTreeSet<&'static str>,
    arguments: MachineArgs,
    webhook: Option<Webhook>,
}

impl Machines {
    pub fn of(choice: &Choice, arguments: MachineArgs) -> Result<Self> {
        NetworkFlag::check_all(&arguments.network)
            .map_err(|error| anyhow!("--network: {error}"))?;
        let names = CONTROLLERS.iter().map(|controller| controller.name);
        let names: BTreeSet<&'static str> = names.filter(|name| choice.has(name)).collect();
        ensure!(
            arguments.network.is_empty() || names.contains(MACHINE),
            "--network: it is for the controller machine: add it to --controllers, or \
             leave --network out"
        );
        Ok(Self {
            names,
            arguments,
            webhook: None,
        })
    }

    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Sets the webhook that is served: user clusters can be given its address.
    pub fn with_webhook(self, webhook: Option<Webhook>) -> Self {
        Self { webhook, ..self }
    }

    /// The first controller that needs a ledger in this process.
    pub fn needs_ledger(&self) -> Option<&'static str> {
        self.names.iter().copied().find(|name| *name != CLUSTER)
    }

    /// Runs until `stop`. Without a ledger only those run that need none.
    pub async fn run(
        self,
        client: Client,
        ledger: Option<Ledger>,
        cluster: String,
        metrics: MachinesMetrics,
        stop: CancellationToken,
    ) -> Result<()> {
        let MachinesMetrics {
            queues,
            events,
            machines: counts,
        } = metrics;
        let clock = Clock::system();
        let grace = self.arguments.machine_grace;
        let machines = async {
            let Some(ledger) = ledger.clone().filter(|_| self.names.contains(MACHINE)) else {
                return Ok(());
            };
            let options = ipam::Options {
                client: client.clone(),
                ledger,
                cluster: cluster.clone(),
                networks: self.arguments.network.clone(),
                clock,
                queues: queues.clone(),
                events: events.clone(),
                metrics: counts.clone(),
                instance: hostname(),
                seed: None,
                grace,
                stop: stop.clone(),
            };
            ipam::run(options).await
        };
        let claims = async {
            let Some(ledger) = ledger.clone().filter(|_| self.names.contains(CLAIM)) else {
                return Ok(());
            };
            let options = capi::Options {
                client: client.clone(),
                ledger,
                cluster: cluster.clone(),
                clock,
                queues: queues.clone(),
                events: events.clone(),
                metrics: counts.clone(),
                instance: hostname(),
                seed: None,
                grace,
                stop: stop.clone(),
            };
            capi::run(options).await
        };
        let clusters = async {
            if self.names.contains(CLUSTER) {
                let options = cluster::Options {
                    client: client.clone(),
                    image: self.arguments.machine_image.clone(),
                    webhook: self.webhook.clone(),
                    queues: queues.clone(),
                    events: events.clone(),
                    instance: hostname(),
                    stop: stop.clone(),
                };
                cluster::run(options).await;
            }
        };
        let (machines, claims, ()) = tokio::join!(machines, claims, clusters);
        machines.and(claims).map_err(|error| anyhow!("--cluster-name: {error}"))
    }
}
