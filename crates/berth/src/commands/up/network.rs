//! The network of `berth up`: the Subnet that is there from the first start, the ledger, and the controllers over it.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use berth_api::names::DEFAULT_SUBNET;
use berth_api::{Subnet, SubnetSpec};
use berth_kit::metrics::Metrics;
use berth_ledger::store::{MemoryStore, RedbStore, Store};
use berth_ledger::{Clock, Ledger, LedgerMetrics};
use berth_nodenet::allocator::local::LocalAllocator;
use berth_nodenet::controllers::{self, Controller, DEFAULT_NODE_GRACE, Options};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

use crate::commands::controller::controller_metrics;

/// In the names of owners: there is one cluster on this ledger.
const CLUSTER: &str = "berth-up";

const DEFAULT_CIDR: &str = "10.64.0.0/16";

/// What `--subnet` asks for, checked. Nothing is changed yet.
#[derive(Debug)]
pub struct Space {
    spec: SubnetSpec,
    asked: bool,
}

impl Space {
    pub fn choose(cidrs: &[String]) -> Result<Self> {
        let asked = !cidrs.is_empty();
        let cidrs = if asked {
            cidrs.to_vec()
        } else {
            vec![DEFAULT_CIDR.to_owned()]
        };
        let spec = SubnetSpec {
            cidrs,
            ..SubnetSpec::default()
        };
        if let Err(refused) = spec.validate() {
            let why: Vec<String> = refused.iter().map(|invalid| invalid.message.clone()).collect();
            bail!("--subnet {}: {}", spec.cidrs.join(" --subnet "), why.join("; "));
        }
        Ok(Self { spec, asked })
    }

    /// Makes the Subnet if there is none. One that is there is not changed: its owner may have grown it since.
    pub async fn ensure(self, client: Client) -> Result<()> {
        let api = Api::<Subnet>::all(client);
        let Some(found) = api.get_opt(DEFAULT_SUBNET).await.context("looking for the Subnet")? else {
            let subnet = Subnet::new(DEFAULT_SUBNET, self.spec);
            let made = api.create(&PostParams::default(), &subnet).await;
            return made.map(drop).context("making the Subnet of --subnet");
        };
        let missing = self.spec.cidrs.iter().find(|cidr| !found.spec.cidrs.contains(cidr));
        match missing {
            Some(cidr) if self.asked => Err(anyhow!(
                "--subnet {cidr}: the Subnet {DEFAULT_SUBNET} is there already, with {}; append to its cidrs with kubectl, or give \
                 another --data-dir",
                found.spec.cidrs.join(", ")
            )),
            _ => Ok(()),
        }
    }
}

/// Who owns what: in the data directory, or in memory with everything else.
pub fn open_store(file: Option<PathBuf>) -> Result<Arc<dyn Store>> {
    Ok(match file {
        Some(file) => Arc::new(RedbStore::open(&file).context("--data-dir")?),
        None => Arc::new(MemoryStore::default()),
    })
}

/// Until `stop`.
pub async fn run(client: Client, store: Arc<dyn Store>, metrics: Metrics, stop: CancellationToken) -> Result<()> {
    let clock = Clock::system();
    let ledger = Ledger::new(store, clock, metrics.register(LedgerMetrics::register));
    let options = Options {
        client,
        allocator: Arc::new(LocalAllocator::new(ledger)),
        cluster: CLUSTER.to_owned(),
        controllers: Controller::on_by_default(),
        clock,
        metrics: controller_metrics(&metrics),
        instance: None,
        seed: None,
        node_grace: DEFAULT_NODE_GRACE,
        stop,
    };
    controllers::run(options).await.map_err(|error| anyhow!("{error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(cidrs: &[&str]) -> String {
        let cidrs: Vec<String> = cidrs.iter().map(|cidr| (*cidr).to_owned()).collect();
        format!("{:#}", Space::choose(&cidrs).unwrap_err())
    }

    #[test]
    fn space_that_makes_no_subnet_is_refused_with_the_flag_and_the_fix() {
        let error = refused(&["10.64.0.1/16"]);
        assert!(
            error.starts_with("--subnet 10.64.0.1/16: ") && error.contains("10.64.0.0/16"),
            "{error}"
        );
        assert!(refused(&["10.64.0.0/16", "10.64.3.0/24"]).contains("overlap"));
    }

    #[test]
    fn without_a_flag_there_is_a_default() {
        assert_eq!(Space::choose(&[]).unwrap().spec.cidrs, [DEFAULT_CIDR]);
    }
}
