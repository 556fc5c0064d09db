//! The network of `berth up`: its first Subnet, and how many pods fit.

use anyhow::{Context, Result, anyhow, bail};
use berth_api::names::DEFAULT_SUBNET;
use berth_api::subnet::{Scaler, UnitLengths, Use};
use berth_api::{Subnet, SubnetSpec};
use berth_kit::metrics::Metrics;
use berth_scheduler::{Books, NoCidr, SchedulerMetrics, Settings, publish_fit};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::demo;

const DEFAULT_CIDR: &str = "10.64.0.0/16";

/// The Subnet of `--node-cidrs`.
const NODES_SUBNET: &str = "nodes";

/// The checked values of `--subnet` or `--node-cidrs`. Nothing is changed yet.
#[derive(Debug)]
pub struct Space {
    spec: SubnetSpec,
    asked: bool,
}

impl Space {
    pub fn choose(cidrs: &[String]) -> Result<Self> {
        Self::of_pods(cidrs, DEFAULT_CIDR, SubnetSpec::default())
    }

    /// A small one, which runs out and recovers while people watch.
    pub fn of_demo(cidrs: &[String]) -> Result<Self> {
        let spec = SubnetSpec {
            reuse_delay: demo::REUSE_DELAY.to_owned(),
            scaler: Scaler {
                batch_size: demo::BATCH_SIZE,
                ..Scaler::default()
            },
            ..SubnetSpec::default()
        };
        Self::of_pods(cidrs, demo::CIDR, spec)
    }

    fn of_pods(cidrs: &[String], default: &str, spec: SubnetSpec) -> Result<Self> {
        let asked = !cidrs.is_empty();
        let cidrs = if asked {
            cidrs.to_vec()
        } else {
            vec![default.to_owned()]
        };
        let spec = SubnetSpec { cidrs, ..spec };
        if let Err(refused) = spec.validate() {
            let why: Vec<String> = refused.iter().map(|invalid| invalid.message.clone()).collect();
            bail!("--subnet {}: {}", spec.cidrs.join(" --subnet "), why.join("; "));
        }
        Ok(Self { spec, asked })
    }

    /// One podCIDR of that length for each node.
    pub fn of_nodes(cidrs: &[String], ipv4: u8, ipv6: u8) -> Result<Self> {
        let spec = SubnetSpec {
            usage: Use::NodeCidrs,
            cidrs: cidrs.to_vec(),
            unit_lengths: UnitLengths {
                ipv4: Some(ipv4).filter(|_| cidrs.iter().any(|cidr| !cidr.contains(':'))),
                ipv6: Some(ipv6).filter(|_| cidrs.iter().any(|cidr| cidr.contains(':'))),
            },
            ..SubnetSpec::default()
        };
        if let Err(refused) = spec.validate() {
            let why: Vec<String> = refused.iter().map(|invalid| invalid.message.clone()).collect();
            bail!(
                "--node-cidrs {} --node-cidr-mask-size {ipv4} \
                 --node-cidr-mask-size-ipv6 {ipv6}: {}",
                spec.cidrs.join(","),
                why.join("; ")
            );
        }
        Ok(Self { spec, asked: true })
    }

    pub fn is_of_nodes(&self) -> bool {
        self.spec.usage == Use::NodeCidrs
    }

    fn name(&self) -> &'static str {
        if self.is_of_nodes() {
            NODES_SUBNET
        } else {
            DEFAULT_SUBNET
        }
    }

    /// Creates the Subnet if there is none. An existing one is not changed: its owner may have
    /// extended it. Returns whether nodes have podCIDRs.
    pub async fn ensure(self, client: Client) -> Result<bool> {
        let api = Api::<Subnet>::all(client);
        let has_node_cidrs = self.is_of_nodes() || api.get_opt(NODES_SUBNET).await?.is_some();
        if has_node_cidrs && !self.asked {
            return Ok(true);
        }
        let (name, flag) = match self.is_of_nodes() {
            true => (self.name(), "--node-cidrs"),
            false => (self.name(), "--subnet"),
        };
        if self.is_of_nodes() && api.get_opt(DEFAULT_SUBNET).await?.is_some() {
            bail!(
                "--node-cidrs: the Subnet {DEFAULT_SUBNET} is there already, and pods \
                 take their addresses from it: give another --data-dir"
            );
        }
        let Some(found) = api.get_opt(name).await.context("looking for the Subnet")? else {
            let subnet = Subnet::new(name, self.spec);
            let made = api.create(&PostParams::default(), &subnet).await;
            made.with_context(|| format!("making the Subnet of {flag}"))?;
            return Ok(has_node_cidrs);
        };
        let missing = self.spec.cidrs.iter().find(|cidr| !found.spec.cidrs.contains(cidr));
        match missing {
            Some(cidr) if self.asked => Err(anyhow!(
                "{flag} {cidr}: the Subnet {name} is there already, with {}; append to \
                 its cidrs with kubectl, or give another --data-dir",
                found.spec.cidrs.join(", ")
            )),
            _ => Ok(has_node_cidrs),
        }
    }
}

/// Counts which nodes have an IP for a pod, and publishes the figures of Subnets.
pub async fn count_pod_ips(client: &Client, metrics: &Metrics, stop: &CancellationToken) -> Books {
    let settings = Settings {
        // A node gets its NodeNetworkConfig shortly after it is created.
        no_cidr: NoCidr::Fail,
        ..Settings::default()
    };
    let books = Books::new(settings);
    let tasks = TaskTracker::new();
    books.follow(client, &tasks, stop);
    let publishing =
        publish_fit(books.clone(), client.clone(), metrics.share(SchedulerMetrics::register));
    let stop = stop.clone();
    tokio::spawn(async move {
        stop.run_until_cancelled(publishing).await;
    });
    books.synced().await;
    books
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(cidrs: &[&str]) -> String {
        let cidrs: Vec<String> = cidrs.iter().map(|cidr| (*cidr).to_owned()).collect();
        format!("{:#}", Space::choose(&cidrs).unwrap_err())
    }

    #[test]
    fn an_invalid_subnet_is_refused_with_the_flag_and_the_fix() {
        let error = refused(&["10.64.0.1/16"]);
        assert!(
            error.starts_with("--subnet 10.64.0.1/16: ") && error.contains("10.64.0.0/16"),
            "{error}"
        );
        assert!(refused(&["10.64.0.0/16", "10.64.3.0/24"]).contains("overlap"));
    }

    #[test]
    fn space_for_nodes_that_has_no_room_for_one_is_refused() {
        let choose = |cidr: &str, length| Space::of_nodes(&[cidr.to_owned()], length, 64);
        assert!(choose("10.244.0.0/16", 29).unwrap().is_of_nodes());
        let error = format!("{:#}", choose("10.244.0.0/16", 8).unwrap_err());
        assert!(
            error.starts_with("--node-cidrs 10.244.0.0/16 --node-cidr-mask-size 8"),
            "{error}"
        );
    }

    #[test]
    fn without_a_flag_there_is_a_default() {
        assert_eq!(Space::choose(&[]).unwrap().spec.cidrs, [DEFAULT_CIDR]);
    }
}
