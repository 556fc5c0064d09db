//! Flags of the route controller, and the backend that they name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use berth_kit::events::EventMetrics;
use berth_kit::health::Check;
use berth_kit::metrics::Metrics;
use berth_kit::queue::QueueMetrics;
use berth_routes::backend::Backend;
use berth_routes::backend::aws::{Aws, AwsSettings};
use berth_routes::backend::linux::Linux;
use berth_routes::backend::memory::Memory;
use berth_routes::backend::openstack::{OpenStack, OpenStackSettings};
use berth_routes::controller::{
    DEFAULT_MIN_RESYNC_PERIOD, DEFAULT_RECONCILIATION_PERIOD, Options, Publish, RouteMetrics,
    WATCH_BASED_GATE,
};
use berth_routes::core::parse_cidr;
use clap::ValueEnum;
use kube::Client;

use super::{duration, hostname};

/// Listing the kernel's routes takes milliseconds, and no event reports routes that are removed
/// with a link.
const AGENT_RESYNC_PERIOD: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Cloud {
    Linux,
    Aws,
    Openstack,
    Memory,
}

#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Routes")]
pub struct RouteArgs {
    /// Where the route controller makes routes
    #[arg(long, env = "BERTH_CLOUD", value_name = "CLOUD")]
    cloud: Option<Cloud>,
    /// The cloud's settings: cloud.conf, or clouds.yaml
    #[arg(long, env = "BERTH_CLOUD_CONFIG", value_name = "FILE")]
    cloud_config: Option<PathBuf>,
    #[command(flatten)]
    cidrs: ClusterCidrs,
    /// How often all routes are reconciled while the gate
    /// CloudControllerManagerWatchBasedRoutesReconciliation is off
    #[arg(long, env = "BERTH_ROUTE_RECONCILIATION_PERIOD", value_name = "DURATION", default_value = "10s", value_parser = duration)]
    route_reconciliation_period: Duration,
    /// How often all routes are reconciled while that gate is on, times a random factor of 1 to 2
    #[arg(long, env = "BERTH_MIN_RESYNC_PERIOD", value_name = "DURATION", default_value = "12h", value_parser = duration)]
    min_resync_period: Duration,
    /// Feature gates, as Name=true,Name=false
    #[arg(long, env = "BERTH_FEATURE_GATES", value_name = "GATES", value_delimiter = ',')]
    feature_gates: Vec<String>,
}

/// Where routes are made.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct ClusterCidrs {
    /// Make routes to CIDRs inside of these only; several times or with commas [default: the cidrs
    /// of all Subnets with use: node-cidrs]
    #[arg(long, env = "BERTH_CLUSTER_CIDR", value_name = "CIDR", value_delimiter = ',')]
    cluster_cidr: Vec<String>,
}

impl ClusterCidrs {
    fn parse(&self) -> Result<Option<Vec<berth_addr::Prefix>>> {
        if self.cluster_cidr.is_empty() {
            return Ok(None);
        }
        let parse = |text: &String| {
            let cidr = parse_cidr(text).with_context(|| {
                format!(
                    "--cluster-cidr: {text:?} is not a CIDR: write it as 10.244.0.0/16 or \
                     fd00:10:244::/48"
                )
            })?;
            if cidr.to_string() != *text {
                tracing::info!(given = text, used = %cidr, "--cluster-cidr is not in canonical \
                                                            form; using its prefix");
            }
            Ok(cidr)
        };
        self.cluster_cidr.iter().map(parse).collect::<Result<_>>().map(Some)
    }
}

/// The checked settings of the route controller.
#[derive(Clone, Debug)]
pub struct RouteSettings {
    backend: Arc<dyn Backend>,
    cluster_cidrs: Option<Vec<berth_addr::Prefix>>,
    watch_based: bool,
    reconciliation_period: Duration,
    min_resync_period: Duration,
    publish: Publish,
    metrics: RouteMetrics,
}

impl RouteArgs {
    pub fn settings(&self, metrics: &Metrics) -> Result<RouteSettings> {
        let cloud = self
            .cloud
            .context("--cloud: which one? linux, aws, openstack or memory")?;
        ensure!(
            !self.route_reconciliation_period.is_zero() && !self.min_resync_period.is_zero(),
            "--route-reconciliation-period and --min-resync-period: they must be more than 0s"
        );
        Ok(RouteSettings {
            watch_based: watch_based(&self.feature_gates)?,
            cluster_cidrs: self.cidrs.parse()?,
            backend: backend(cloud, self.cloud_config.as_ref())?,
            reconciliation_period: self.route_reconciliation_period,
            min_resync_period: self.min_resync_period,
            publish: Publish::All,
            metrics: route_metrics(metrics),
        })
    }
}

impl RouteSettings {
    /// The settings for routes from this machine to the pods of all other nodes.
    pub fn of_agent(node: &str, cidrs: &ClusterCidrs, metrics: &Metrics) -> Result<Self> {
        let backend = Linux::open().context("--routes linux")?;
        Ok(Self {
            backend: Arc::new(backend),
            cluster_cidrs: cidrs.parse()?,
            watch_based: true,
            reconciliation_period: DEFAULT_RECONCILIATION_PERIOD,
            min_resync_period: AGENT_RESYNC_PERIOD,
            publish: Publish::Own(node.to_owned()),
            metrics: route_metrics(metrics),
        })
    }

    /// The settings for `berth up`, whose nodes are not machines: routes in memory.
    pub fn of_up(metrics: &Metrics) -> Self {
        Self {
            backend: Arc::new(Memory::default()),
            cluster_cidrs: None,
            watch_based: true,
            reconciliation_period: DEFAULT_RECONCILIATION_PERIOD,
            min_resync_period: DEFAULT_MIN_RESYNC_PERIOD,
            publish: Publish::All,
            metrics: route_metrics(metrics),
        }
    }

    pub fn options(self, client: Client, ready: Option<Arc<Check>>) -> Options {
        Options {
            client,
            backend: self.backend,
            cluster_cidrs: self.cluster_cidrs,
            watch_based: self.watch_based,
            reconciliation_period: self.reconciliation_period,
            min_resync_period: self.min_resync_period,
            publish: self.publish,
            metrics: self.metrics,
            instance: hostname(),
            seed: None,
            ready,
        }
    }
}

fn route_metrics(metrics: &Metrics) -> RouteMetrics {
    let queues = metrics.share(QueueMetrics::register);
    let events = metrics.share(EventMetrics::register);
    metrics.register(|registry| RouteMetrics::register(registry, queues, events))
}

/// On by default. Upstream's gate is off, because its watching controller has failures that ours
/// does not have.
fn watch_based(gates: &[String]) -> Result<bool> {
    let mut watch_based = true;
    for gate in gates.iter().map(|gate| gate.trim()).filter(|gate| !gate.is_empty()) {
        let (name, value) = gate.split_once('=').unwrap_or((gate, ""));
        let value: bool = value.parse().with_context(|| {
            format!("--feature-gates: {gate:?}: write it as {name}=true or {name}=false")
        })?;
        match name {
            WATCH_BASED_GATE => watch_based = value,
            name => {
                bail!("--feature-gates: there is no gate {name:?}: there is {WATCH_BASED_GATE}")
            }
        }
    }
    Ok(watch_based)
}

fn backend(cloud: Cloud, config: Option<&PathBuf>) -> Result<Arc<dyn Backend>> {
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path);
        text.with_context(|| format!("--cloud-config: reading {}", path.display()))
    };
    let file = config.map(read).transpose()?;
    let environment: BTreeMap<String, String> = std::env::vars().collect();
    Ok(match cloud {
        Cloud::Linux => Arc::new(Linux::open().context("--cloud linux")?),
        Cloud::Memory => Arc::new(Memory::default()),
        Cloud::Aws => Arc::new(Aws::new(AwsSettings::new(file.as_deref(), &environment)?)?),
        Cloud::Openstack => {
            let settings = OpenStackSettings::new(file.as_deref(), &environment)?;
            Arc::new(OpenStack::new(settings)?)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(text: &str) -> Result<bool> {
        watch_based(&text.split(',').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_gate_is_on_unless_it_is_switched_off() {
        assert!(gates("").unwrap());
        assert!(!gates(&format!("{WATCH_BASED_GATE}=false")).unwrap());
        assert!(gates(&format!("{WATCH_BASED_GATE}=true")).unwrap());
    }

    #[test]
    fn a_wrong_gate_is_told_the_right_one() {
        let error = gates("Other=true").unwrap_err().to_string();
        assert!(error.contains(WATCH_BASED_GATE), "{error}");
        assert!(gates(WATCH_BASED_GATE).is_err());
    }

    #[test]
    fn a_cluster_cidr_may_have_host_bits_and_must_be_one() {
        let parse = |text: &str| {
            let cluster_cidr = vec![text.to_owned()];
            ClusterCidrs { cluster_cidr }.parse()
        };
        assert_eq!(parse("a00:100::/10").unwrap().unwrap()[0].to_string(), "a00::/10");
        let error = parse("10.0.0.0").unwrap_err().to_string();
        assert!(
            error.starts_with("--cluster-cidr: \"10.0.0.0\" is not a CIDR"),
            "{error}"
        );
    }
}
